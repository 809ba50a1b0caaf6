"""The command line: what it prints, what it refuses, with which exit code."""

import re

import pytest

from untwist.cli import DESCRIPTIONS, main
from untwist.cli.train import Train, parse_values
from untwist.store import open_run, read_table
from untwist.types import InputError

SMALL = [
    *("--dataset", "linear", "--set", "samples=200", "--architecture", "linear"),
    *("--latents", "2", "--steps", "30", "--batch", "20", "--log-every", "10", "--seeds", "2"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "first"
    assert main(["train", *SMALL, "--beta", "0.01", "0.1", "--out", str(path)]) == 0
    return path


def call(capsys, *words):
    code = main(list(map(str, words)))
    output = capsys.readouterr()
    return code, output.out, output.err


def test_help_names_every_command(capsys):
    code, out, _ = call(capsys)
    assert code == 0
    for name, text in DESCRIPTIONS.items():
        assert re.search(rf"{name} +{text}", out)
    assert call(capsys, "--version")[1].strip() == "0.1.0"


@pytest.mark.parametrize("name", sorted(DESCRIPTIONS))
def test_every_command_explains_itself(capsys, name):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code in (0, None)
    assert f"usage: untwist {name}" in capsys.readouterr().out


def test_every_option_of_train_is_documented(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    printed = capsys.readouterr().out
    for option in Train.__dataclass_fields__:
        assert f"--{option.replace('_', '-')}" in printed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "did you mean 'train'"),
        (["runs", "lst"], "did you mean 'list'"),
        (["data", "describ"], "did you mean 'describe'"),
        (["train", *SMALL, "--dataset", "sprits"], "did you mean 'sprites'"),
        (["train", *SMALL, "--set", "sample=3"], "did you mean 'samples'"),
        (["train", *SMALL, "--objective", "beta"], "did you mean 'beta-vae'"),
        (["train", *SMALL, "--vary", "warmpu=1"], "did you mean 'warmup'"),
        (["train", *SMALL, "--vary", "warmup"], "NAME=NUMBER,NUMBER"),
        (["train", *SMALL, "--vary", "beta=1", "--beta", "2"], "given twice"),
        (["train", *SMALL, "--beta", "-1"], "beta must be at least 0"),
        (["train", *SMALL, "--latents", "0"], "at least one latent"),
        (["train", *SMALL, "--batch", "201"], "at most the 200 examples"),
        (["train", *SMALL, "--seeds", "0"], "at least one seed"),
        (["train", *SMALL, "--devices", "99"], "devices, which are there"),
        (["train", "--resume", "nowhere"], "is not a directory"),
        (["runs", "show", "nowhere"], "is not a directory"),
        (["runs", "compare"], "at least one run"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(capsys, words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *words)
    assert code == 2
    assert sentence in err
    assert err.startswith("untwist: ")
    assert err.count("\n") == 1
    assert out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "suggestion"), [(["--datset", "x"], "--dataset"), (["--steps", "many"], "--steps")]
)
def test_unknown_options_and_types_are_refused_with_the_nearest(capsys, words, suggestion):
    with pytest.raises(SystemExit) as ended:
        main(["train", *words])
    assert ended.value.code == 2
    assert suggestion in capsys.readouterr().err


def test_train_prints_its_members_and_stores_them(run, capsys):
    assert open_run(run).state == "finished"
    code, out, _ = call(capsys, "runs", "show", run)
    assert code == 0
    assert "0.01" in out
    assert out.count("ok") == 4
    assert 'dataset = "linear"' in out


def test_an_existing_directory_is_refused(run, capsys):
    code, _, err = call(capsys, "train", *SMALL, "--out", run)
    assert code == 2
    assert "exists already" in err


def test_a_name_is_found_where_none_is_given(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        assert call(capsys, "train", *SMALL, "--quiet")[0] == 0
        assert (tmp_path / f"runs/linear-beta-vae-{number}/run.toml").exists()
    code, out, _ = call(capsys, "runs", "list")
    assert code == 0
    assert out.count("finished") == 2


def test_compare_and_sql(run, capsys):
    code, out, _ = call(capsys, "runs", "compare", run)
    assert code == 0
    assert "beta=0.01" in out
    assert "beta=0.1" in out
    code, out, _ = call(
        capsys, "runs", "sql", "SELECT count(*) AS logs FROM history", "--root", run.parent
    )
    assert code == 0
    assert "12" in out


def test_scores_are_stored_by_member_and_shown_by_setting(run, capsys):
    code, out, _ = call(capsys, "score", run, "--metrics", "mig", "linear_r2", "--repeats", "0")
    assert code == 0
    assert "beta=0.01" in out
    assert "beta=0.1" in out
    table = read_table(run / "scores.parquet")
    assert sorted(zip(table["metric"], table["member"], strict=True)) == [
        (metric, member) for metric in ("linear_r2", "mig") for member in range(4)
    ]
    values = table["value"][table["metric"] == "linear_r2"]
    code, out, _ = call(capsys, "runs", "compare", run, "--scores", "linear_r2")
    assert code == 0
    for pair in (values[:2], values[2:]):  # members are ordered by beta, then by seed
        assert f"{pair.mean():.4g} ± {pair.std(ddof=1):.2g}" in out
    sql = "SELECT count(*) AS rows FROM scores WHERE metric = 'mig'"
    assert "4" in call(capsys, "runs", "sql", sql, "--root", run.parent)[1]
    code, _, err = call(capsys, "runs", "compare", run, "--scores", "sap")
    assert code == 2
    assert f"untwist score {run} --metrics sap" in err


def test_resuming_a_finished_run_shows_it(run, capsys):
    code, out, _ = call(capsys, "train", "--resume", run)
    assert code == 0
    assert "first: finished" in out


def test_values_of_a_hyperparameter():
    assert parse_values("learning-rate=1e-3,0.1") == ("learning_rate", (1e-3, 0.1))
    with pytest.raises(InputError, match="NAME=NUMBER"):
        parse_values("beta=a")


@pytest.mark.slow
def test_the_demo_draws_and_can_be_run_again(tmp_path, capsys):
    words = ["demo", "--out", str(tmp_path / "demo"), "--steps", "20", "--seeds", "2", "--quiet"]
    code, out, _ = call(capsys, *words)
    assert code == 0
    for name in ("beta=16", "full-covariance", "pictures:"):
        assert name in out
    for picture in ("curves.png", "traversals.png"):
        assert (tmp_path / "demo" / picture).read_bytes().startswith(b"\x89PNG")
    assert call(capsys, *words)[1] == out
