"""Distance to orthogonality against brute force and an integer program; the other measures."""

import itertools
import time

import jax
import numpy as np
import pytest
import scipy.linalg
from planted_decoders import frame, orthogonal, rotation
from scipy.optimize import LinearConstraint, milp

from untwist.mechanism import (
    cosines,
    distance_to_orthogonality,
    haar_distance,
    hadamard_gap,
    nearest_axes,
    od_score,
    od_score_released,
    polar_distance,
    published_random_distances,
    spectrum,
)
from untwist.mechanism.assignment import assign, assign_by_sets
from untwist.theory import independence_gap
from untwist.types import InputError


def brute_force(vectors):
    """The distance to the closest in L1 of all signed permutations."""
    size = len(vectors)
    best = (np.inf, np.inf)
    for order in itertools.permutations(range(size)):
        for signs in itertools.product((1, -1), repeat=size):
            other = np.eye(size)[list(order)] * signs
            best = min(best, (np.abs(vectors - other).sum(), np.linalg.norm(vectors - other)))
    return best[1]


def integer_program(vectors):
    """The program of rolinek2019, Sec. 8.2: P = plus - minus, D >= |V - P|, least sum of D."""
    size = len(vectors)
    count = size * size
    cost = np.concatenate([np.zeros(2 * count), np.ones(count)])
    unit = np.eye(count)
    above = np.hstack([unit, -unit, unit])  # D + P >= V
    below = np.hstack([-unit, unit, unit])  # D - P >= -V
    sums = np.vstack([np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))])
    once = np.hstack([sums, sums, np.zeros((2 * size, count))])
    flat = vectors.ravel()
    found = milp(
        cost,
        integrality=np.concatenate([np.ones(2 * count), np.zeros(count)]),
        bounds=(0, np.concatenate([np.ones(2 * count), np.full(count, np.inf)])),
        constraints=[
            LinearConstraint(above, flat, np.inf),
            LinearConstraint(below, -flat, np.inf),
            LinearConstraint(once, 1, 1),
        ],
    )
    signed = (found.x[:count] - found.x[count : 2 * count]).reshape(size, size)
    return np.linalg.norm(vectors - signed)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_distance_is_that_of_brute_force(size):
    matrices = np.stack([orthogonal(size, seed) for seed in range(5 if size == 5 else 20)])
    expected = [brute_force(matrix) for matrix in matrices]
    np.testing.assert_allclose(distance_to_orthogonality(matrices), expected, atol=1e-12)


def test_distance_is_that_of_the_integer_program():
    matrices = np.stack([orthogonal(10, seed) for seed in range(3)])
    expected = [integer_program(matrix) for matrix in matrices]
    np.testing.assert_allclose(distance_to_orthogonality(matrices), expected, atol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 5, 7])
def test_all_sets_of_columns_give_the_same_assignment(size):
    gains = np.random.default_rng(size).random((40, size, size))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(assign_by_sets(gains), assign(gains))


def test_an_accelerator_computes_the_same(monkeypatch):
    matrices = np.random.default_rng(0).standard_normal((2, 30, 4, 6)).astype(np.float32)
    gram = matrices @ matrices.swapaxes(-1, -2)
    expected = spectrum(gram)
    distances = distance_to_orthogonality(expected.vectors)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    found = spectrum(gram)
    assert found.values.dtype == found.vectors.dtype == np.float64
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)
    projectors = found.vectors @ found.vectors.swapaxes(-1, -2)
    np.testing.assert_allclose(projectors, np.tile(np.eye(4), (2, 30, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(distance_to_orthogonality(found.vectors), distances, atol=1e-9)
    swap = np.eye(4)[:, [2, 0, 3, 1]] * [1, -1, -1, 1]
    assert distance_to_orthogonality(swap) == 0
    assert nearest_axes(swap).tolist() == [2, 0, 3, 1]


def test_ten_thousand_distances_take_less_than_half_a_second():
    matrices = np.linalg.qr(np.random.default_rng(0).standard_normal((10_000, 10, 10)))[0]
    seconds = []
    for _ in range(3):
        began = time.process_time()
        distance_to_orthogonality(matrices)
        seconds.append(time.process_time() - began)
    assert min(seconds) < 0.5


@pytest.mark.parametrize(("latents", "mean"), [(2, 0.55), (5, 1.63), (6, 1.91)])
def test_random_rotations_have_the_known_mean(latents, mean):
    # 20,000 draws with a deviation of at most 0.31: a standard error of 0.0022.
    assert haar_distance(latents) == pytest.approx(mean, abs=0.01)


def test_two_random_axes_have_their_closed_form():
    exact = 16 * np.sqrt(2) / np.pi * (1 - np.cos(np.pi / 8))
    assert haar_distance(2) == pytest.approx(exact, abs=4 * 0.31 / np.sqrt(20_000))


def test_published_untrained_decoders_lie_above_random_rotations():
    published = published_random_distances()
    for dataset, latents in (("dSprites", 5), ("Synth. Lin.", 2), ("MNIST", 6)):
        assert published[dataset] > haar_distance(latents) + 0.1


@pytest.mark.parametrize("angle", [0.1, 0.4, np.pi / 4])
def test_a_plane_turned_by_an_angle(angle):
    expected = 2 * np.sqrt(2) * np.sin(angle / 2)
    assert distance_to_orthogonality(rotation(angle)) == pytest.approx(expected)


def test_order_and_signs_do_not_matter():
    turn = orthogonal(4, 3)
    other = turn[:, [2, 0, 3, 1]] * [1, -1, -1, 1]
    assert distance_to_orthogonality(other) == pytest.approx(float(distance_to_orthogonality(turn)))
    swap = np.eye(4)[:, [2, 0, 3, 1]] * [1, -1, -1, 1]
    assert distance_to_orthogonality(swap) == 0
    assert nearest_axes(swap).tolist() == [2, 0, 3, 1]


def test_spectrum_is_numpys():
    matrices = np.random.default_rng(0).standard_normal((6, 9, 4))
    found = spectrum(np.einsum("ipj,ipk->ijk", matrices, matrices))
    _, values, rows = np.linalg.svd(matrices, full_matrices=False)
    np.testing.assert_allclose(found.values, values, rtol=1e-10)
    overlaps = np.abs(np.einsum("ijk,ijk->ik", found.vectors, rows.swapaxes(1, 2)))
    np.testing.assert_allclose(overlaps, 1, rtol=1e-10)
    assert (found.rank == 4).all()


def test_spectrum_of_a_deficient_gram():
    matrix = np.outer([1.0, 2.0, 3.0], [1.0, 1.0])
    found = spectrum(matrix.T @ matrix)
    assert found.rank == 1
    assert found.values[1] == pytest.approx(0, abs=1e-6)


def test_polar_distance_is_that_to_scipys_polar_factor():
    for seed in range(5):
        matrix = np.random.default_rng(seed).standard_normal((8, 4))
        unit = matrix / np.linalg.norm(matrix, axis=0)
        expected = np.linalg.norm(unit - scipy.linalg.polar(unit)[0])
        assert polar_distance(matrix.T @ matrix) == pytest.approx(expected)


def test_measures_vanish_exactly_where_columns_are_orthogonal():
    matrix = frame(8, 4) * [5.0, 1.0, 1.0, 0.1]
    gram = matrix.T @ matrix
    assert polar_distance(gram) == pytest.approx(0, abs=1e-12)
    assert hadamard_gap(gram) == pytest.approx(0, abs=1e-12)
    skew = matrix + 0.3 * matrix[:, [1, 0, 3, 2]]
    assert polar_distance(skew.T @ skew) > 0.1
    assert hadamard_gap(skew.T @ skew) > 0.1


def test_hadamard_gap_is_that_of_the_theory():
    matrices = np.random.default_rng(0).standard_normal((5, 7, 3))
    expected = [independence_gap(matrix) for matrix in matrices]
    found = hadamard_gap(np.einsum("ipj,ipk->ijk", matrices, matrices))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_dead_and_dependent_columns():
    gram = np.diag([4.0, 0.0, 1.0])
    assert hadamard_gap(gram) == 0
    assert polar_distance(gram) == 0
    assert cosines(gram).tolist() == np.eye(3).tolist()
    assert hadamard_gap(np.ones((2, 2))) == np.inf
    assert hadamard_gap(np.zeros((2, 2))) == 0


def test_od_score_of_orthogonal_models_is_zero_whatever_their_order_and_signs():
    first = frame(6, 3) * [3.0, 2.0, 1.0]
    other = first[:, [2, 0, 1]] * [1, -1, 1]
    skew = first @ (np.eye(3) + 0.2)
    np.testing.assert_allclose(od_score(np.stack([first, other, skew])), [0, 0, 1], atol=1e-9)


def test_od_score_by_its_definition():
    draw = np.random.default_rng(1)
    stack = frame(6, 3) * [5.0, 3.0, 1.0] + 0.1 * draw.standard_normal((3, 6, 3))
    parts = []
    for matrix in stack:
        left, values, rows = np.linalg.svd(matrix, full_matrices=False)
        vectors = rows.T
        order = nearest_axes(vectors)
        signs = np.sign(vectors[order, range(3)])
        left, vectors, values = left * signs, vectors * signs, values  # columns in their order
        near = np.eye(3)[:, order]
        polar = scipy.linalg.polar(matrix)[0]
        norms = np.linalg.norm(matrix, axis=0)[order]
        # The polar factor's columns, brought to the same order and signs.
        parts.append(
            [
                np.sum((left - polar @ near) ** 2),
                np.sum((values - norms) ** 2),
                np.sum((vectors - near) ** 2),
            ]
        )
    parts = np.array(parts)
    assert parts[:, 0] == pytest.approx(parts[:, 2])  # erratum E35
    np.testing.assert_allclose(od_score(stack), (parts / parts.max(0)).mean(1), rtol=1e-9)


def test_released_od_score_does_not_know_orthogonality():
    orthogonal_columns = frame(6, 3) * [3.0, 2.0, 1.0]
    released = od_score_released(orthogonal_columns[None])
    assert od_score(orthogonal_columns[None]) == 0
    assert released > 0.5  # S is compared with ones, U with arbitrary signs


def test_released_od_score_line_by_line():
    matrix = np.random.default_rng(2).standard_normal((5, 2))
    inverse = np.linalg.inv(matrix.T @ matrix)
    inverse[inverse < 0] = 0
    near = matrix @ inverse**0.5
    left, values, rows = np.linalg.svd(matrix)
    expected = (
        np.linalg.norm(np.linalg.svd(near)[0] - left)
        + np.linalg.norm(np.linalg.svd(near)[1] - values)
        + np.linalg.norm(np.eye(2) - rows)
    ) / 3
    assert od_score_released(matrix[None])[0] == pytest.approx(expected)
    assert od_score_released(np.stack([matrix, matrix]), relative=True).tolist() == [1.0, 1.0]


def test_od_score_refuses_what_it_cannot_compare():
    with pytest.raises(InputError, match=r"\(model, pixel, latent\).*but got \(2, 3\)"):
        od_score(np.zeros((2, 3)))
