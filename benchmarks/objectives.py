"""Model-steps a second of each objective, as a ratio to the VAE in the same run.

    python benchmarks/objectives.py
    python benchmarks/objectives.py --members 50 --architecture convolutional --size 64

Sprites, batch 64. The objectives take turns, round after round, and the best round of each counts,
so that a busy machine slows them alike. FactorVAE is timed with its published discriminator (six
layers of 1000) and with one of two layers of 256.
"""

import argparse
import time

import jax

from untwist.datasets import load
from untwist.objectives import OBJECTIVES
from untwist.training import Spec, fit, partners_of
from untwist.training.spec import prepare, resolve

NARROW = (256, 256)


def cases() -> dict[str, dict]:
    """The changes to a spec that make each case, the VAE first."""
    made = {"beta-vae": {}} | {name: {"objective": name} for name in OBJECTIVES}
    made["factor-vae, 2 x 256"] = {"objective": "factor-vae", "critic_layers": NARROW}
    return made


class Runner:
    """A training that goes on by so many steps at a time."""

    def __init__(self, changes: dict, options: argparse.Namespace):
        data = load("sprites", size=options.size)
        spec = Spec(
            "sprites",
            {"size": options.size},
            options.architecture,
            latents=10,
            seeds=tuple(range(options.members)),
            **changes,
        )
        spec, data = resolve(spec, data)
        partners = partners_of(spec.objective, spec.pairs, data)
        members, recipe = prepare(spec, data.shape, partners)
        rounds = options.steps * (options.rounds + 1)
        self.steps = fit(data, members, recipe, rounds, log_every=options.steps)
        began = time.perf_counter()
        next(self.steps)
        self.first = time.perf_counter() - began

    def advance(self) -> float:
        """Takes the next steps; returns the seconds that they took."""
        began = time.perf_counter()
        next(self.steps)
        return time.perf_counter() - began


def main() -> None:
    """Runs every case and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--architecture", default="small")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    runners = {name: Runner(changes, options) for name, changes in cases().items()}
    best = {name: float("inf") for name in runners}
    for _ in range(options.rounds):
        for name, runner in runners.items():
            best[name] = min(best[name], runner.advance())
    print(f"{jax.devices()[0].device_kind}, {options.architecture}, {options.members} members")
    print("| objective | model-steps/s | ratio to the VAE | compile s |")
    print("| --- | --- | --- | --- |")
    for name, runner in runners.items():
        rate = options.members * options.steps / best[name]
        ratio = best["beta-vae"] / best[name]
        print(f"| {name} | {rate:,.0f} | {ratio:.2f} | {runner.first - best[name]:.1f} |")


if __name__ == "__main__":
    main()
