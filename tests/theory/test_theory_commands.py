"""`untwist theory`: what it prints, writes and refuses."""

import csv
import dataclasses

import jax
import numpy as np
import pytest
import tyro.extras

from untwist.cli import theory as command
from untwist.cli.matrix_file import read_matrix
from untwist.cli.theory import COMMANDS
from untwist.theory import CHECKS, Check, statements
from untwist.types import InputError


def run(*words):
    return tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="untwist theory", args=list(words))


def test_list_shows_every_result(capsys):
    run("list")
    shown = capsys.readouterr().out
    assert all(name in shown for name in statements())
    run("list", "allen2024")
    assert "sikka2019" not in capsys.readouterr().out


def test_check_prints_both_sides(capsys):
    assert run("check", "rolinek2019/eq25b", "--seed", "3") == 0
    words = capsys.readouterr().out
    for label in ("statement", "left", "right", "gap", "tolerance", "verdict    holds"):
        assert label in words


def test_check_of_a_paper_is_a_table(capsys):
    assert run("check", "zietlow2021") == 0
    assert "8 of 8 hold" in capsys.readouterr().out


def test_a_failing_check_gives_exit_code_one(capsys, monkeypatch):
    def broken(identifier, *, key):
        evidence = dataclasses.replace(CHECKS[identifier](key), gap=1.0)
        return Check(statements()[identifier], evidence)

    monkeypatch.setattr(command, "run_check", broken)
    assert run("check", "rolinek2019/lemS1") == 1
    assert "fails" in capsys.readouterr().out


def test_curve_writes_a_table_and_a_figure(tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.array([[2.73, 0.73], [0.73, 2.73]]))
    run("curve", str(tmp_path / "c"), "--mixing", str(tmp_path / "a.npy"), "--points", "7")
    with (tmp_path / "c.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(r["beta"]) for r in rows].count(1.0) == 1
    assert float(max(rows, key=lambda r: float(r["elbo"]))["beta"]) == 1
    assert (tmp_path / "c.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "best ELBO at beta 1" in capsys.readouterr().out


def test_predict_reads_data_and_covariances(tmp_path, capsys):
    draw = np.random.default_rng(0)
    data = draw.standard_normal((4000, 3)) * np.array([3.0, 1.0, 1.0])
    np.savetxt(tmp_path / "data.csv", data, delimiter=",", header="a,b,c", comments="")
    run("predict", str(tmp_path / "data.csv"), "--latents", "2")
    shown = capsys.readouterr().out
    assert shown.count("not determined") == 1
    assert "axes 1 to 2" in shown
    np.savez(tmp_path / "cov.npz", np.diag([4.0, 2.0]))
    run("predict", str(tmp_path / "cov.npz"), "--covariance", "--betas", "1", "3", "5")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    counts = {line[1]: line[3] for line in lines if len(line) == 5 and line[1] in "135"}
    assert counts == {"1": "2", "3": "1", "5": "0"}


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["check", "rolinek2019/thm22"], "did you mean 'rolinek2019/thm2'"),
        (["check", "rolinek"], "did you mean 'rolinek2019'"),
        (["check", "zietlow2021/manip"], "is not checked here"),
        (["list", "rolinek"], "did you mean 'rolinek2019'"),
        (["curve", "c", "--low", "2", "--high", "1"], "0 < low < high"),
        (["curve", "none/c"], "no directory none"),
        (["predict", "none.npy", "--betas", "-1"], "all positive"),
        (["curve", "c", "--mixing", "none.npy"], "no file at none.npy"),
        (["curve", "c", "--noise", "-1"], "must be positive|noise variance positive"),
    ],
)
def test_bad_words_are_sentences(words, match, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=match):
        run(*words)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("x.csv", b"1,2\n3\n", "matrix of numbers"),
        ("x.csv", b"", "must hold a matrix"),
        ("x.csv", b"1,nan\n2,3\n", "missing or infinite"),
        ("x.npy", b"not numpy", "matrix of numbers"),
        ("x.npy", b"", "matrix of numbers"),
        ("x.npz", b"PK\x03\x04cut", "matrix of numbers"),
        ("x.txt", b"1 2", "must end in"),
    ],
)
def test_bad_files_are_sentences(name, content, match, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=match):
        read_matrix(tmp_path / name)


def test_an_archive_of_two_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "two.npz", a=np.eye(2), b=np.eye(2))
    with pytest.raises(InputError, match="one array, but holds a, b"):
        read_matrix(tmp_path / "two.npz")


def test_a_pickle_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="matrix of numbers"):
        read_matrix(tmp_path / "x.npy")


def test_a_rectangle_is_no_covariance(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    with pytest.raises(InputError, match="a covariance is square"):
        run("predict", str(tmp_path / "x.npy"), "--covariance")


def test_importing_the_room_changes_nothing():
    assert not jax.config.read("jax_enable_x64")
