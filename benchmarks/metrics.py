"""How long metrics take: `python benchmarks/metrics.py` prints a table in Markdown.

Codes of 10,000 items with 10 latents and the 6 factors of Shapes3D (10, 10, 10, 8, 4 and 15
values); predictors train on two thirds of them. `--levels` takes other sizes, `--slow` adds the
tree ensembles on 2,000 training items, `--population` fifty members, and `--agreement` the fast DCI
against the reference's over the planted cases of the tests. Beside the wall clock stand the
processor's seconds of the same call, which other work on the machine does not lengthen much; where
there are more cores, `taskset -c 0,1` measures two.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import jax
import numpy as np

from untwist.factors import FactorSpace
from untwist.metrics import (
    METRICS,
    Neighbors,
    Split,
    dci_completeness,
    dci_disentanglement,
    dci_informativeness,
    importance,
    metric_names,
    mig,
    score,
    udr,
)

SIZES = (10, 10, 10, 8, 4, 15)
ITEMS, LATENTS, MEMBERS = 10000, 10, 50
NAMED = (
    "mig", "sap", "modularity", "explicitness", "gaussian_total_correlation",
    "wasserstein_correlation", "mean_mutual_information", "active_units", "irs",
    "beta_vae_score", "factor_vae_score",
)  # fmt: skip
TREES = {"dci_disentanglement_fast", "dci_completeness_fast", "dci_informativeness_fast"}
KEY = jax.random.key(0)


def encode(factors, sizes, member=0):
    """Codes that mix neighboring factors a little, with noise that the factors fix."""
    rng = np.random.default_rng(member)
    center, spread = (np.array(sizes) - 1) / 2, np.sqrt((np.array(sizes) ** 2 - 1) / 12)
    clean = np.concatenate([(factors - center) / spread, np.sin(7.0 * factors[..., :4])], -1)
    mixing = np.eye(LATENTS) + 0.3 * np.roll(np.eye(LATENTS), 1, 0)
    return (clean @ mixing + 0.1 * rng.standard_normal(clean.shape)).astype(np.float32)


def once(function):
    """The wall-clock and processor seconds of one call."""
    wall, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - processor


def best(function, repeats=5):
    """The least of several calls, after one to warm up."""
    function()
    return min(once(function) for _ in range(repeats))


def line(what, seconds):
    """Prints a row of the table, with the load of the machine beside it."""
    wall, processor = seconds
    print(f"| {what} | {wall:.3f} | {processor:.3f} | {os.getloadavg()[0]:.1f} |", flush=True)


def sampler_of(table):
    """A sampler from codes of the whole grid, at hand in memory."""
    return lambda index: np.take(table, index, axis=0)


def agreement():
    """Prints DCI by fast boosting beside the reference's, over the planted cases."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "metrics"))
    import planted

    print("\n| case | D | D fast | C | C fast | I | I fast |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    gaps = []
    for name, (codes, factors) in planted.CASES.items():
        both = [
            importance(codes, factors, planted.SPACE, key=KEY, model=model)
            for model in ("boosting", "histogram")
        ]
        cells = []
        for part in (dci_disentanglement, dci_completeness, dci_informativeness):
            pair = [part(importances).value for importances in both]
            gaps.append(abs(pair[0] - pair[1]))
            cells += [f"{value:.3f}" for value in pair]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print(f"\nmean difference {np.mean(gaps):.3f}, largest {np.max(gaps):.3f}")


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    for flag in ("--slow", "--population", "--agreement"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--levels", type=int, nargs=6, default=SIZES)
    options = parser.parse_args()
    space = FactorSpace(tuple("abcdef"), tuple(options.levels), ("ordinal",) * 6)
    grid = np.asarray(space.factors(np.arange(space.grid_size)))
    table = encode(grid, space.sizes)
    index = np.random.default_rng(0).integers(space.grid_size, size=ITEMS)
    codes, factors, sampler = table[index], grid[index], sampler_of(table)
    print("| what | seconds | processor seconds | load |\n| --- | --- | --- | --- |")

    def run(names):
        return score(
            codes, factors, space, names, key=KEY, repeats=0, sampler=sampler,
            variances=np.full_like(codes, 0.01), losses=np.ones(len(codes)),
        )  # fmt: skip

    line("the named set, one model", best(lambda: run(NAMED)))
    rest = [name for name in metric_names() if name in METRICS and not METRICS[name].slow]
    line("everything but tree-based DCI", best(lambda: run(set(rest) - TREES), 3))
    estimator = Neighbors(10)
    line(
        "neighbor information, all pairs",
        best(lambda: mig(codes, factors, space, estimator=estimator)),
    )
    for name in sorted(set(rest) - TREES):
        line(name, best(lambda name=name: run([name]), 3))
    line("DCI, histogram boosting, 6,667 training items", once(lambda: run(sorted(TREES))))
    if options.population:
        members = np.stack([encode(factors, space.sizes, member) for member in range(MEMBERS)])
        samplers = [sampler] * MEMBERS
        line(
            f"the named set, {MEMBERS} members",
            best(
                lambda: score(members, factors, space, NAMED, key=KEY, repeats=0, sampler=samplers),
                2,
            ),
        )
        line(f"UDR by lasso, {MEMBERS} members", best(lambda: udr(members), 1))
    if options.slow:
        parts = Split(np.arange(2000), np.arange(2000, 3000))
        for model in ("histogram", "forest", "boosting"):
            line(
                f"DCI, {model}, 2,000 training items",
                once(
                    lambda model=model: importance(
                        codes, factors, space, key=KEY, model=model, parts=parts
                    )
                ),
            )
    if options.agreement:
        agreement()


if __name__ == "__main__":
    main()
