"""`untwist explain`: a population explained, stored and drawn; misuse is one sentence."""

import numpy as np
import pytest
from PIL import Image

from untwist.cli import main
from untwist.cli.explain import kl_weights
from untwist.report import explanation_figure
from untwist.store import open_run, query, read_arrays, read_table
from untwist.training import Conduct, Spec, train
from untwist.types import InputError

SPEC = Spec(
    "linear",
    options={"samples": 1000},
    architecture="linear",
    latents=2,
    batch=100,
    steps=400,
    log_every=100,
    seeds=(0, 1),
    vary={"beta": (0.01, 100.0), "learning_rate": (0.02,)},
)
LIGHT = ["--depth.items", "100", "--depth.costly-items", "20", "--depth.fit-items", "4"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A population whose second half has collapsed, explained once, with what was printed."""
    path = tmp_path_factory.mktemp("explain") / "run"
    train(SPEC, path, conduct=Conduct(progress=False))
    return open_run(path)


@pytest.fixture(scope="module")
def printed(run):
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["explain", str(run.path), *LIGHT]) == 0
    return out.getvalue()


def test_everything_is_stored(run, printed):
    table = read_table(run.path / "explanation.parquet")
    assert sorted(set(table["member"])) == [0, 1, 2, 3]
    active = {
        int(member): value
        for member, name, value in zip(
            table["member"], table["quantity"], table["value"], strict=True
        )
        if name == "active_latents"
    }
    assert active == {0: 2.0, 1: 2.0, 2: 0.0, 3: 0.0}
    empty = np.isnan(table["value"].astype(float))
    assert (empty == (table["reason"] != "")).all()
    assert {"distance_untrained", "polarized_share"} <= set(table["quantity"])
    scores = table["value"][table["quantity"] == "od_score"].astype(float)
    assert len(scores) == 4
    assert ((scores >= 0) & (scores <= 1)).all()
    assert scores.max() > 0
    said = read_table(run.path / "sentences.parquet")
    collapsed = said["sentence"][said["member"] == 2]
    assert len(collapsed) == 1
    assert collapsed[0].startswith("No latent is active")
    arrays = read_arrays(run.path / "explanation.safetensors")
    assert arrays["member.0.column_norms"].shape == (100, 2)


def test_the_table_and_the_sentences_are_printed(run, printed):
    assert "beta=0.01" in printed
    assert "beta=100" in printed
    assert "no latent is active" in printed
    assert "member 0 (beta=0.01):\n- 2 of 2 latents are active (0 and 1)." in printed
    assert "member 1" not in printed
    assert "nan" not in printed.lower()


def test_the_figure_comes_from_the_store_alone(run, printed, tmp_path):
    with Image.open(run.path / "explanation.png") as picture:
        assert picture.size[0] > 1000
    explanation_figure(run, tmp_path / "again.png", members={0: "beta=0.01", 2: "beta=100"})
    again = (tmp_path / "again.png").read_bytes()
    assert again == (run.path / "explanation.png").read_bytes()


def test_the_explanation_is_a_table_of_sql(run, printed):
    """Joined with the members by run and member, as the scores are."""
    query_ = (
        "SELECT beta, sum(value) AS active FROM explanation JOIN members USING (run, member) "
        "WHERE quantity = 'active_latents' GROUP BY beta ORDER BY beta"
    )
    assert query([run], query_) == (["beta", "active"], [(0.01, 4.0), (100.0, 0.0)])
    said = query([run], "SELECT count(*) FROM sentences WHERE sentence LIKE 'No latent is active%'")
    assert said[1] == [(2,)]
    empty = query([run], "SELECT count(*) FROM explanation WHERE (value IS NULL) != (reason != '')")
    assert empty[1] == [(0,)]


@pytest.mark.parametrize(
    ("objective", "columns", "expected"),
    [
        ("beta-vae", {"beta": [2.0, 4.0, 4.0], "warmup": [0.0, 100.0, 400.0]}, [2.0, 4.0, 2.0]),
        ("slow-vae", {"beta": [2.0, 4.0, 4.0]}, [2.0, 4.0, 4.0]),
        ("beta-tcvae", {"beta": [2.0, 4.0, 4.0]}, 1.0),
        ("annealed-vae", {"capacity": [5.0, 5.0, 5.0]}, None),
    ],
)
def test_the_weight_of_the_kl_is_that_of_the_end_of_training(objective, columns, expected):
    table = {name: np.array(values) for name, values in columns.items()}
    members = table | {"steps": np.full(3, 200)}
    found = kl_weights(members, Spec(objective=objective), [0, 1, 2])
    assert found == (expected if np.ndim(expected) == 0 else pytest.approx(np.array(expected)))


def test_one_member(run, printed, capsys):
    assert main(["explain", str(run.path), "--members", "1", *LIGHT]) == 0
    assert "member 1" in capsys.readouterr().out
    table = read_table(run.path / "explanation.parquet")
    assert set(table["member"]) == {1}
    assert (
        table["reason"][table["quantity"] == "od_score"]
        == "compares the local fits of several members"
    )


def test_misuse(run, tmp_path, capsys):
    assert main(["explain", str(run.path), "--members", "9"]) == 2
    assert "member 9 diverged or does not exist: choose from 0, 1, 2, 3" in capsys.readouterr().err
    assert main(["explain", str(run.path), "--items", "0"]) == 2
    assert "expected at least one of the examples, but got --items 0" in capsys.readouterr().err
    assert main(["explain", str(tmp_path)]) == 2
    assert "is not a run" in capsys.readouterr().err
    with pytest.raises(InputError, match="run `untwist explain` on it first"):
        explanation_figure(type(run)(tmp_path, {}), tmp_path / "a.png", members={0: ""})
