"""The settings of the study of the field and of zietlow2021, against what we build by default.

Study: disentanglement_lib, config/unsupervised_study_v1/sweep.py and model_configs/shared.gin.
"""

import dataclasses
import tomllib
from importlib.resources import files

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_models import EXAMPLES, KEY, model

from untwist.objectives import OBJECTIVES, AnnealedVAE, Batch
from untwist.training import OPTIMIZERS

# Name: the swept field, its six values, and what is fixed.
STUDY = {
    "beta-vae": ("beta", (1, 2, 4, 6, 8, 16), {"warmup": 0}),
    "annealed-vae": ("capacity", (5, 10, 25, 50, 75, 100), {"gamma": 1000, "ramp": 100_000}),
    "factor-vae": ("gamma", (10, 20, 30, 40, 50, 100), {}),
    "dip-vae-i": ("off_diagonal", (1, 2, 5, 10, 20, 50), {"diagonal_ratio": 10}),
    "dip-vae-ii": ("off_diagonal", (1, 2, 5, 10, 20, 50), {"diagonal_ratio": 1}),
    "beta-tcvae": ("beta", (1, 2, 4, 6, 8, 10), {"stratified": 0, "dataset_size": 0}),
}


@pytest.mark.parametrize("name", sorted(STUDY))
def test_the_sweep_of_the_study_needs_no_other_setting(name):
    """One program for the six strengths; what the study fixes is our default."""
    swept, values, fixed = STUDY[name]
    objective = OBJECTIVES[name](**{swept: jnp.array(values, jnp.float32)})
    np.testing.assert_array_equal(getattr(objective, swept), values)
    names = [field.name for field in dataclasses.fields(objective)]
    assert sorted(names) == sorted([swept, *fixed])
    for field, value in fixed.items():
        np.testing.assert_array_equal(getattr(objective, field), np.full(6, value))


@pytest.mark.parametrize("capacity", STUDY["annealed-vae"][1])
@pytest.mark.parametrize(("step", "share"), [(0, 0), (25_000, 0.25), (100_000, 1), (300_000, 1)])
def test_the_capacity_of_the_study_at_steps_of_its_training(capacity, step, share):
    """gamma |KL - min(c_max, c_max step / 100,000)|, added to the reconstruction."""
    found = AnnealedVAE(float(capacity))(
        model(), None, Batch(EXAMPLES, None, jnp.array(step)), key=KEY
    )
    penalty = 1000 * np.abs(found.parts["kl"] - share * capacity)
    np.testing.assert_allclose(found.loss, found.parts["reconstruction"] + penalty, rtol=1e-5)


def test_the_adversarial_adam_is_that_of_the_study():
    """Momenta 0.5 and 0.9, epsilon 1e-8: two steps by hand."""
    rule = OPTIMIZERS["adam-adversarial"]
    gradients = [np.array([0.3, -2.0]), np.array([0.1, 1.0])]
    state, first, second = rule.init(jnp.zeros(2)), np.zeros(2), np.zeros(2)
    for count, gradient in enumerate(gradients, 1):
        found, state = rule.update(jnp.asarray(gradient, jnp.float32), state)
        first = 0.5 * first + 0.5 * gradient
        second = 0.9 * second + 0.1 * gradient**2
        expected = first / (1 - 0.5**count) / (np.sqrt(second / (1 - 0.9**count)) + 1e-8)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_strengths_of_zietlow2021_are_hyperparameters_of_ours():
    """Table 2 names a main regularizer for each method; ours takes both of its values at once."""
    text = (files("untwist") / "published" / "zietlow2021.toml").read_text()
    table = next(t for t in tomllib.loads(text)["tables"] if t["id"] == "table2")
    ours = {
        "beta-VAE (beta)": ("beta-vae", "beta"),
        "TC-beta-VAE (beta)": ("beta-tcvae", "beta"),
        "FactorVAE (gamma)": ("factor-vae", "gamma"),
        "Slow-VAE (beta)": ("slow-vae", "beta"),
    }
    assert {row["model"] for row in table["rows"]} == set(ours)
    for row in table["rows"]:
        name, field = ours[row["model"]]
        values = [row["values"][data]["mean"] for data in ("dSprites", "Shapes3D")]
        objective = OBJECTIVES[name](**{field: np.array(values)})
        assert getattr(objective, field).tolist() == values
    assert jax.tree.leaves(OBJECTIVES["slow-vae"]())[0] == 1.0
