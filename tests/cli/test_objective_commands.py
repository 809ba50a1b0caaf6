"""Objectives with a second player, with pairs and without a decoder, on the command line."""

import pytest

from untwist.cli import main
from untwist.cli.train import Train, parse_pairs
from untwist.store import open_run, read_table
from untwist.types import InputError

DATA = ["--dataset", "sprites", "--set", "size=16", "scales=2", "orientations=1", "positions=4"]
SHORT = ["--architecture", "linear", "--latents", "3", "--steps", "20", "--batch", "16", "--quiet"]


def test_an_encoder_alone_trains_and_is_scored_compared_and_explained(tmp_path, capsys):
    """What needs no decoder works; the rest says why not."""
    path = str(tmp_path / "run")
    pairs = ["--pairs", "kind=uniform", "changed=1"]
    assert main(["train", *DATA, *SHORT, "--objective", "pcl", *pairs, "--out", path]) == 0
    stored = open_run(tmp_path / "run").config["spec"]
    assert stored["pairs"] == {"kind": "uniform", "changed": 1.0}
    assert "likelihood" not in stored
    assert "critic_layers" not in stored
    chosen = ["--metrics", "mcc", "reconstruction", "kl_to_prior", "--repeats", "0"]
    assert main(["score", path, *chosen]) == 0
    printed = capsys.readouterr().out
    assert "needs the reconstruction loss of each item, but got none" in printed
    assert "needs posterior variances, but none were given" in printed
    scores = read_table(tmp_path / "run" / "scores.parquet")
    assert dict(zip(scores["metric"], scores["value"], strict=True))["mcc"] > 0
    assert main(["runs", "compare", path]) == 0
    assert main(["explain", path]) == 0
    printed = capsys.readouterr().out
    assert "needs a decoder, and the model is an encoder alone" in printed
    assert "There is no decoder to look at" in printed


def test_options_reach_the_spec():
    options = [
        "--objective",
        "factor-vae",
        "--critic-layers",
        "8",
        "4",
        "--critic-optimizer",
        "sgd",
    ]
    import tyro

    spec = tyro.cli(Train, args=[*DATA, *options]).spec()
    assert (spec.critic_layers, spec.critic_optimizer) == ((8, 4), "sgd")
    assert tyro.cli(Train, args=DATA).spec().critic_layers is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("rate",), "as NAME=VALUE, but got 'rate'"),
        (("rate=1", "rate=2"), "rate of the pairs is given twice"),
    ],
)
def test_settings_of_pairs_that_are_none(words, sentence):
    with pytest.raises(InputError, match=sentence):
        parse_pairs(words)
