"""Run directories: what opens, what is refused, and SQL over many."""

import shutil
from dataclasses import replace

import pytest

from untwist.store import create_run, find_runs, holding, open_run, query, toml
from untwist.training import Conduct, Spec, load_population, resume, train
from untwist.types import InputError

SPEC = Spec(
    "linear", {"samples": 200}, "linear", vary={"beta": (0.01, 0.1)}, latents=2, steps=20, batch=20
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for name, steps in (("a", 20), ("b", 40)):
        spec = replace(SPEC, steps=steps, log_every=10)
        train(spec, root / name, conduct=Conduct(progress=False))
    return root


def test_sql_sees_all_runs(runs):
    columns, rows = query(
        find_runs(runs),
        "SELECT run, member, max(step), count(*) FROM history GROUP BY ALL ORDER BY ALL",
    )
    assert columns[:2] == ["run", "member"]
    assert rows == [("a", 0, 20, 2), ("a", 1, 20, 2), ("b", 0, 40, 4), ("b", 1, 40, 4)]
    assert query(find_runs(runs), "SELECT run, state, steps FROM runs ORDER BY run")[1] == [
        ("a", "finished", "20"),
        ("b", "finished", "40"),
    ]
    joined = (
        "SELECT beta, max(kl_per_latent[2]) FROM history JOIN members USING (run, member) "
        "GROUP BY beta"
    )
    assert len(query(find_runs(runs), joined)[1]) == 2


def test_a_wrong_query_is_one_sentence(runs):
    with pytest.raises(
        InputError,
        match=r"nowhere does not exist! \(the tables are runs, members, history, scores, "
        r"explanation and sentences\)$",
    ):
        query(find_runs(runs), "SELECT nothing FROM nowhere")


def test_no_runs_are_no_rows(tmp_path):
    assert query(find_runs(tmp_path), "SELECT * FROM history")[1] == []


def damaged(runs, tmp_path, name, content):
    path = tmp_path / "run"
    shutil.copytree(runs / "a", path)
    if content is None:
        (path / name).unlink()
    else:
        (path / name).write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("run.toml", None, "has no run.toml"),
        ("run.toml", b"format = ", "is damaged: expected TOML"),
        ("run.toml", b"\xff\xfe", "is damaged: expected TOML"),
        ("run.toml", b"other = 1", "expected format, spec and data"),
        ("run.toml", b"format = 99\n[spec]\n[data]\n", "newer version \\(format 99"),
        ("weights.safetensors", None, "has no weights.safetensors: the run is not finished"),
        ("weights.safetensors", b"nonsense", "is damaged: expected safetensors"),
        ("members.parquet", None, "has no members.parquet: the run is damaged"),
        ("members.parquet", b"nonsense", "is damaged: expected a Parquet table"),
        ("history.parquet", b"", "is damaged: expected a Parquet table"),
    ],
)
def test_a_damaged_run_is_refused_and_nothing_more_is_lost(runs, tmp_path, name, content, sentence):
    path = damaged(runs, tmp_path, name, content)
    files = sorted(file.name for file in path.iterdir())
    with pytest.raises(InputError, match=sentence):
        load_population(open_run(path))
    assert sorted(file.name for file in path.iterdir()) == files


def test_weights_of_another_run_are_refused(runs, tmp_path):
    train(replace(SPEC, latents=3), tmp_path / "c", conduct=Conduct(progress=False))
    path = damaged(
        runs, tmp_path, "weights.safetensors", (tmp_path / "c/weights.safetensors").read_bytes()
    )
    with pytest.raises(InputError, match="does not fit its run"):
        load_population(open_run(path))


def test_a_run_in_use_is_not_trained_twice(tmp_path):
    run = create_run(tmp_path / "run", SPEC.table(), {"checksum": ""})
    assert run.state == "interrupted"
    with holding(run):
        assert run.state == "running"
        with pytest.raises(InputError, match="being trained by another process"), holding(run):
            pass
    with holding(run):
        pass


@pytest.mark.parametrize("kind", ["file", "full directory"])
def test_what_exists_is_kept(tmp_path, kind):
    path = tmp_path / "there"
    if kind == "file":
        path.write_text("mine")
    else:
        path.mkdir()
        (path / "mine").touch()
    with pytest.raises(InputError, match="exists already"):
        create_run(path, {}, {})
    assert path.exists()


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(InputError, match="is not a directory"):
        open_run(tmp_path / "missing")
    with pytest.raises(InputError, match="is not a directory"):
        find_runs(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write"):
        create_run(tmp_path / "file" / "run", {}, {})


def test_a_damaged_checkpoint_is_said(tmp_path):
    run = create_run(tmp_path / "run", replace(SPEC, steps=40).table(), {})
    config = toml.read(run.path / "run.toml")
    from untwist.datasets import load

    config["data"]["checksum"] = load("linear", samples=200).checksum()
    toml.write(run.path / "run.toml", config)
    run.checkpoint.write_bytes(b"half a file")
    with pytest.raises(InputError, match=r"state\.safetensors is damaged"):
        resume(run.path, conduct=Conduct(progress=False))
    assert run.checkpoint.read_bytes() == b"half a file"
