"""Training a spec: what is stored, what resumes, and what is refused."""

import importlib
import os
import signal
from dataclasses import replace

import jax
import numpy as np
import pytest

from untwist.datasets import load
from untwist.store import open_run, read_arrays, read_table
from untwist.training import Conduct, Spec, load_population, resume, train
from untwist.training.spec import member_columns, resolve
from untwist.types import InputError

SPEC = Spec(
    "linear",
    {"samples": 1000},
    "linear",
    vary={"beta": (1e-3, 1e-1), "learning_rate": (1e-2,)},
    seeds=(3, 4),
    latents=2,
    steps=250,
    batch=50,
)
QUIET = Conduct(progress=False)
ALWAYS = Conduct(progress=False, checkpoint_seconds=0.0)


def same(ours, theirs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "straight"
    return path, train(SPEC, path, conduct=QUIET)


def test_a_run_holds_the_population(trained):
    path, population = trained
    stored = load_population(open_run(path))
    same(stored.models, population.models)
    same(stored.members, population.members)
    for name, column in population.history.items():
        np.testing.assert_array_equal(stored.history[name], column)
    assert not (path / "checkpoint").exists()


def test_members_are_the_combinations(trained):
    _, population = trained
    assert population.members["beta"].tolist() == [1e-3, 1e-3, 1e-1, 1e-1]
    assert population.members["seed"].tolist() == [3, 4, 3, 4]
    assert population.members["status"].tolist() == ["ok"] * 4
    assert population.members["steps"].tolist() == [250] * 4
    steps = population.history["step"][population.history["member"] == 0]
    assert steps.tolist() == [100, 200, 250]
    assert population.history["kl_per_latent"].shape == (12, 2)


def test_a_run_is_readable_without_this_package(trained):
    import tomllib

    import pyarrow.parquet as pq
    from safetensors.numpy import load_file

    path, population = trained
    config = tomllib.loads((path / "run.toml").read_text())
    assert config["spec"]["vary"]["beta"] == [1e-3, 1e-1]
    assert config["data"]["checksum"] == load("linear", samples=1000).checksum()
    assert config["environment"]["jax"] == jax.__version__
    assert pq.read_table(path / "members.parquet").num_rows == 4
    weights = load_file(path / "weights.safetensors")
    np.testing.assert_array_equal(
        weights["decoder.dense.layers.0.weight"], population.models.decoder.dense.layers[0].weight
    )


def test_the_stored_spec_trains_the_same_run_again(trained):
    path, population = trained
    again = train(Spec.of(open_run(path).config["spec"]), conduct=QUIET)
    same(again.models, population.models)


def test_seeds_share_their_start_and_order():
    """The same seed at another beta begins alike: at step one the reconstructions are equal."""
    spec = replace(SPEC, steps=1, log_every=1)
    history = train(spec, conduct=QUIET).history
    np.testing.assert_array_equal(history["reconstruction"][:2], history["reconstruction"][2:])
    assert history["reconstruction"][0] != history["reconstruction"][1]


@pytest.fixture
def signal_at(monkeypatch):
    """Sends this process a signal once, when a training shows a certain step."""

    def arm(step, number):
        module = importlib.import_module("untwist.training.train")
        show = module.Progress.show

        def showing(self, snapshot):
            show(self, snapshot)
            if snapshot.step == step:
                os.kill(os.getpid(), number)

        monkeypatch.setattr(module.Progress, "show", showing)

    return arm


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed_is_the_same_as_straight(trained, tmp_path, signal_at, number):
    """A first Ctrl-C stops at the next log with a checkpoint; resuming ends with the same bits."""
    path, straight = tmp_path / "run", trained[1]
    signal_at(40, number)
    population = train(replace(SPEC, log_every=10), path, conduct=QUIET)
    assert set(population.members["status"]) == {"interrupted"}
    assert open_run(path).state == "interrupted"
    assert read_table(path / "history.parquet")["step"].max() == 40
    resumed = resume(path, conduct=QUIET)
    same(resumed.models, straight.models)
    assert open_run(path).state == "finished"
    assert (resumed.history["step"][resumed.history["member"] == 0] == np.arange(10, 251, 10)).all()


def test_resuming_from_every_checkpoint_is_the_same_as_straight(trained, tmp_path, monkeypatch):
    """Stop after each log in turn, by an error in place of the kill, and resume."""
    module = importlib.import_module("untwist.training.train")
    for stop in (1, 2):
        path = tmp_path / f"run{stop}"
        written = []
        write = module._write_checkpoint

        def stopping(*arguments, stop=stop, written=written, write=write):
            write(*arguments)
            written.append(1)
            if len(written) == stop:
                raise RuntimeError("killed")

        monkeypatch.setattr(module, "_write_checkpoint", stopping)
        with pytest.raises(RuntimeError, match="killed"):
            train(SPEC, path, conduct=ALWAYS)
        monkeypatch.undo()
        same(resume(path, conduct=QUIET).models, trained[1].models)


def test_a_finished_run_is_only_read(trained):
    path, population = trained
    before = (path / "weights.safetensors").stat().st_mtime_ns
    same(resume(path, conduct=QUIET).models, population.models)
    assert (path / "weights.safetensors").stat().st_mtime_ns == before


def test_a_diverged_member_is_reported_and_its_history_ends(tmp_path):
    spec = replace(SPEC, vary={"learning_rate": (1e-2, 1e30)}, seeds=(0,))
    population = train(spec, tmp_path / "run", conduct=QUIET)
    assert population.members["status"].tolist() == ["ok", "diverged"]
    failed_at = population.members["failed_at"][1]
    assert population.members["steps"].tolist() == [250, failed_at]
    assert (population.history["member"] == 0).sum() == 3
    assert np.isfinite(population.history["loss"]).all()


def test_a_member_that_says_nothing_has_collapsed():
    population = train(replace(SPEC, vary={"beta": (1e4,)}, steps=1500), conduct=QUIET)
    assert set(population.members["status"]) == {"collapsed"}


@pytest.mark.parametrize(
    ("objective", "posterior", "vary"),
    [
        ("ae", None, {}),
        ("beta-vae", "full", {"beta": (1e-3,), "warmup": (0.0, 50.0)}),
        ("annealed-vae", None, {"capacity": (1.0, 2.0), "gamma": (10.0,), "ramp": (100.0,)}),
    ],
)
@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
def test_every_kind_trains_and_loads(objective, posterior, vary, optimizer, tmp_path):
    spec = replace(
        SPEC, objective=objective, posterior=posterior, vary=vary, optimizer=optimizer, steps=40
    )
    population = train(spec, tmp_path / "run", conduct=QUIET)
    assert (population.members["status"] == "ok").all()
    same(load_population(open_run(tmp_path / "run")).models, population.models)


def test_the_variance_may_vary_over_members(tmp_path):
    spec = replace(
        SPEC, likelihood="gaussian", vary={"variance": (0.1, 0.5)}, seeds=(1,), steps=300
    )
    population = train(spec, tmp_path / "run", conduct=QUIET)
    assert population.models.likelihood.variance.tolist() == [np.float32(0.1), 0.5]
    stored = load_population(open_run(tmp_path / "run"))
    assert stored.models.likelihood.variance.tolist() == [np.float32(0.1), 0.5]
    # Variance 1/2 is squared error, up to the constant: the same member, the same weights.
    squared = train(replace(SPEC, vary={}, seeds=(1,), steps=300), conduct=QUIET)
    np.testing.assert_allclose(
        population.model(1).decoder.dense.layers[0].weight,
        squared.model(0).decoder.dense.layers[0].weight,
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.slow
def test_bfloat16_reaches_the_loss_of_float32():
    """Within the spread over seeds after 300 steps; parameters stay float32."""
    spec = Spec("sprites", {"size": 16}, "small", latents=4, steps=300, seeds=(0, 1, 2))
    full = train(spec, conduct=QUIET)
    half = train(replace(spec, precision="bfloat16"), conduct=QUIET)
    last = [p.history["loss"][p.history["step"] == 300] for p in (full, half)]
    assert half.models.decoder.dense.layers[0].weight.dtype == np.float32
    assert abs(last[0].mean() - last[1].mean()) < 3 * last[0].std(ddof=1) + 0.01 * last[0].mean()
    assert (last[0] != last[1]).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dataset": "linaer"}, "did you mean 'linear'"),
        ({"architecture": "convolution"}, "did you mean 'convolutional'"),
        ({"objective": "betavae"}, "did you mean 'beta-vae'"),
        ({"optimizer": "adamw"}, "did you mean 'adam'"),
        ({"likelihood": "gausian"}, "did you mean 'gaussian'"),
        ({"posterior": "diagnal"}, "did you mean 'diagonal'"),
        ({"precision": "float64"}, "unknown precision 'float64'"),
        ({"likelihood": "bernoulli"}, "values from 0 to 1"),
        ({"posterior": "deterministic"}, "the deterministic posterior is a point"),
        ({"latents": 0}, "at least one latent"),
        ({"vary": {"beta": (-1.0,)}}, "beta must be at least 0"),
        ({"vary": {"beta": ()}}, "at least one value"),
        ({"vary": {"gamma": (1.0,)}}, "unknown hyperparameter of beta-vae 'gamma'"),
        ({"vary": {"variance": (1.0,)}}, "unknown hyperparameter"),
        ({"vary": {"learning_rate": (0.0,)}}, "learning rate must be above 0"),
        ({"seeds": ()}, "at least one seed"),
        ({"seeds": (1, 1)}, "seeds must differ"),
        ({"seeds": (-1,)}, "a seed must be from 0"),
        ({"batch": 1001}, "at most the 1000 examples"),
        ({"batch": 0}, "at least one example"),
        ({"batch": 1, "objective": "beta-tcvae"}, "beta-tcvae compares .* at least 2"),
        ({"posterior": "deterministic", "objective": "dip-vae-ii"}, "use diagonal or full"),
        ({"steps": 0}, "at least one step"),
        ({"options": {"sampels": 3}}, "did you mean 'samples'"),
    ],
)
def test_bad_specs_are_refused_and_leave_nothing_behind(change, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        train(replace(SPEC, **change), tmp_path / "run", conduct=QUIET)
    assert not (tmp_path / "run").exists()


def test_an_existing_directory_is_not_overwritten(trained):
    before = read_arrays(trained[0] / "weights.safetensors")
    with pytest.raises(InputError, match="exists already: choose another directory, or resume"):
        train(SPEC, trained[0], conduct=QUIET)
    same(before, read_arrays(trained[0] / "weights.safetensors"))


def test_resuming_on_other_data_is_refused(tmp_path, signal_at):
    data = load("linear", samples=500, seed=9)
    signal_at(100, signal.SIGTERM)
    train(SPEC, tmp_path / "run", dataset=data, conduct=QUIET)
    with pytest.raises(InputError, match="the data are not those that"):
        resume(tmp_path / "run", conduct=QUIET)


def test_nan_in_the_data_is_refused():
    data = load("linear", samples=100)
    data.data[7, 1] = np.nan
    with pytest.raises(InputError, match="row 7 holds a NaN"):
        train(SPEC, dataset=data, conduct=QUIET)


def test_a_resolved_spec_names_everything():
    spec, _ = resolve(SPEC)
    assert spec.vary == {"beta": (1e-3, 1e-1), "learning_rate": (1e-2,), "warmup": (0.0,)}
    assert (spec.likelihood, spec.posterior) == ("squared_error", "diagonal")
    assert resolve(Spec.of(spec.table()))[0] == spec
    assert list(member_columns(spec)) == ["member", "seed", "beta", "learning_rate", "warmup"]


def test_stored_settings_of_another_version_are_refused():
    with pytest.raises(InputError, match="unknown setting 'batches': did you mean 'batch'"):
        Spec.of({"batches": 3})


def test_the_progress_says_what_matters(capfd):
    spec = replace(SPEC, vary={"learning_rate": (1e-2, 1e30)}, seeds=(0,))
    train(spec)
    assert "member 1 diverged at step" in capfd.readouterr().err
