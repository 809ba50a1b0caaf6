"""`untwist perturb`: what it leaves, how a killed call goes on, and what it refuses."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from comparing import DATASETS, assert_same

from untwist.cli import main
from untwist.cli.perturb_stages import Stages
from untwist.perturbation import load_dataset, open_perturbed
from untwist.store import open_run, read_arrays, read_table, toml
from untwist.types import InputError

SMALL = [
    *("--dataset", "sprites", "--set", "size=16", "scales=2", "orientations=1", "positions=3"),
    *("--architecture", "small", "--members", "3", "--steps", "40", "--batch", "16"),
    *("--rounds", "6", "--log-every", "2", "--beta", "0.5", "--checkpoint-seconds", "0"),
    *("--manipulation-learning-rate", "0.001", "--samples", "2", "--reader-steps", "20"),
]


def call(capsys, *words):
    code = main(list(map(str, words)))
    output = capsys.readouterr()
    return code, output.out, output.err


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("perturb") / "sprites"
    assert main(["perturb", *SMALL, "--out", str(path), "--quiet"]) == 0
    return path


def test_three_datasets_stand_for_themselves(made):
    source = load_dataset("sprites", size=16, scales=2, orientations=1, positions=3)
    for name in DATASETS:
        dataset = load_dataset(str(made / name))
        assert dataset.name == f"sprites-{name}"
        assert dataset.space == source.space
        assert np.array_equal(dataset.factors, source.factors)
        told = dataset.provenance
        assert told["twin"] is True
        assert told["source"] == source.provenance["source"]
        assert told["epsilon"] == 0.1
        change = np.abs(dataset.examples(slice(None)) - source.examples(slice(None)))
        assert told["largest_change"] == pytest.approx(change.max())
        assert told["mean_change"] == pytest.approx(change.mean())
        assert 0 < change.max() <= 0.1 + 1e-6
        assert sum(file.stat().st_size for file in (made / name).iterdir()) < 400_000
    members = read_table(made / "members.parquet")
    told = load_dataset(str(made / "manipulated")).provenance
    best = int(np.argmax(members["score"]))
    assert told["disentangled_members"] == str(best)
    assert members["chosen"][best] == "disentangled"
    assert told["disentangled_score"] == members["score"][best]


def test_preservation_and_the_picture_are_there(made):
    table = read_table(made / "preservation.parquet")
    assert set(table["dataset"]) == set(DATASETS)
    assert set(table["factor"]) == {"shape", "scale", "posX", "posY"}
    assert (table["found"] == 1).all()
    assert (made / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_perturbed_dataset_trains_scores_and_is_described(made, tmp_path, capsys):
    where, run = made / "manipulated", tmp_path / "run"
    words = ["--architecture", "linear", "--latents", "2", "--steps", "20", "--batch", "16"]
    assert call(capsys, "train", "--dataset", where, *words, "--out", run)[0] == 0
    assert open_run(run).config["data"]["provenance"]["perturbed_from"] == "sprites"
    code, out, _ = call(capsys, "score", run, "--metrics", "mig", "--repeats", "0")
    assert code == 0
    assert "mig" in out
    code, out, _ = call(capsys, "data", "describe", where)
    assert code == 0
    assert "perturbed_from" in out
    code, _, err = call(capsys, "data", "describe", where, "--set", "size=16")
    assert code == 2
    assert "has no options" in err


def test_killed_while_learning_and_resumed_it_ends_with_the_same_bits(made, tmp_path, monkeypatch):
    """A checkpoint after every log; the process dies at the third, before anything is written."""
    import untwist.cli.perturb_stages as stages

    path, learn = tmp_path / "killed", stages.learn

    def dying(*arguments, **named):
        for number, step in enumerate(learn(*arguments, **named)):
            if number == 2:
                raise RuntimeError("killed")
            yield step

    monkeypatch.setattr(stages, "learn", dying)
    with pytest.raises(RuntimeError, match="killed"):
        main(["perturb", *SMALL, "--out", str(path), "--quiet"])
    logs = read_arrays(path / "checkpoint" / "state.safetensors")["logs.round"]
    assert logs.tolist() == [2, 4]
    monkeypatch.undo()
    assert main(["perturb", "--resume", str(path), "--quiet", "--checkpoint-seconds", "0"]) == 0
    assert_same(path, made)


@pytest.mark.slow
def test_objectives_are_compared_on_all_four(made, capsys):
    words = ["--compare", "ae", "beta-vae:beta=0.5", "--compare-seeds", "2"]
    code, out, _ = call(capsys, "perturb", "--resume", made, *words)
    assert code == 0
    assert "mig, mean ± sd over seeds" in out
    for label in ("ae", "beta-vae-beta=0.5"):
        for name in ("original", *DATASETS):
            run = open_run(made / "comparison" / f"{label}-{name}")
            assert run.config["spec"]["seeds"] == [0, 1]
            assert run.scores.exists()
    assert run.config["spec"]["dataset"] == str(made / "random-direction")


def test_a_given_population_is_used_as_it_is(made, tmp_path):
    words = [
        "--population",
        made / "population",
        "--rounds",
        2,
        "--log-every",
        2,
        "--reader-steps",
        20,
    ]
    path = tmp_path / "again"
    assert main([*map(str, ["perturb", *words, "--out", path]), "--quiet"]) == 0
    assert not (path / "population").exists()
    ours, theirs = (read_table(p / "members.parquet")["score"] for p in (path, made))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--epsilon", "0"], "above 0 and at most 1"),
        (["--epsilon", "1.5"], "above 0 and at most 1"),
        (["--members", "1"], "twice as many in the population"),
        (["--choose", "2"], "twice as many in the population"),
        (["--score", "migg"], "did you mean 'mig'"),
        (["--dataset", "circles", "--set", "samples=100"], "holds vectors"),
        (["--dataset", "sprits"], "did you mean 'sprites'"),
        (["--compare", "beta"], "did you mean 'beta-vae'"),
        (["--compare", "beta-vae:bet=1"], "did you mean 'beta'"),
        (["--compare", "beta-vae:beta=1,2"], "one value"),
        (["--resume", "nowhere"], "has no perturb.toml"),
        (["--population", "nowhere"], "is not a directory"),
    ],
)
def test_mistakes_are_one_sentence_before_anything_is_made(
    words, sentence, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "perturb", *SMALL, *words)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
    assert out == ""
    assert not list(tmp_path.iterdir())


def test_members_that_all_collapsed_are_no_choice(tmp_path, capsys):
    words = [*SMALL, "--beta", "10000", "--steps", "200", "--out", tmp_path / "flat", "--quiet"]
    code, _, err = call(capsys, "perturb", *words)
    assert code == 2
    assert "all 3 members collapsed" in err


def test_changed_sources_and_damaged_directories_are_refused(made, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(made / "noise", copy)
    settings = toml.read(copy / "perturbation.toml")
    toml.write(copy / "perturbation.toml", settings | {"kind": "other"})
    with pytest.raises(InputError, match="damaged or of a newer version"):
        open_perturbed(copy)
    other = load_dataset("sprites", size=16, scales=2, orientations=1, positions=2)
    with pytest.raises(InputError, match="is not what it was"):
        open_perturbed(made / "noise", source=other)
    with pytest.raises(InputError, match=r"has no perturbation\.toml"):
        open_perturbed(tmp_path)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "perturb.toml").write_text("format = 1\n")
    with pytest.raises(InputError, match="is damaged"):
        Stages.open(Path(broken))
