"""Model-steps a second on the CPU, next to PyTorch eager in the same run.

    make benchmark
    python benchmarks/training.py --torch PATH_TO_A_PYTHON_WITH_TORCH

Three networks at batch 64: the linear VAE on the 3-D set, the 1200-wide MLP pair (AdaGrad) and the
convolutional pair (Adam) on 64x64 binary images, for 1, 10 and 50 members. Each figure is the
median of repeated runs after compilation and warm-up. PyTorch runs with one thread and with two,
alternating with ours; the better median counts. Data are random, never zero.
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from statistics import median

import numpy as np

from untwist.datasets import Dataset, load
from untwist.factors import FactorSpace
from untwist.training import Spec, fit
from untwist.training.spec import prepare, resolve

CASES = {
    "linear": ("linear", 2, "adam", 1e-3, {1: 20_000, 10: 5000, 50: 2000}),
    "mlp": ("mlp", 5, "adagrad", 1e-3, {1: 60, 10: 30, 50: 15}),
    "convolutional": ("convolutional", 10, "adam", 1e-3, {1: 60, 10: 30, 50: 15}),
}
PEER = Path(__file__).parent / "torch_training.py"


def images() -> Dataset:
    """Random binary images in the format of sprites."""
    bits = np.random.default_rng(0).integers(0, 256, (4096, 512), np.uint8)
    space = FactorSpace(("item",), (4096,), ("categorical",))
    source = {"source": "random bits", "twin": False}
    factors = np.arange(4096)[:, None]
    return Dataset(
        "noise", bits, factors, space, "bernoulli", source, (64, 64, 1), peak=1, bits=True
    )


def ours(case: str, members: int, steps: int, repeats: int) -> dict[str, float]:
    """Compilation seconds, the median rate in model-steps a second, and the loss reached."""
    architecture, latents, optimizer, rate, _ = CASES[case]
    spec = Spec(
        "linear",
        architecture=architecture,
        latents=latents,
        optimizer=optimizer,
        vary={"learning_rate": (rate,)},
        seeds=tuple(range(members)),
        steps=steps * (repeats + 1),
        log_every=steps,
    )
    spec, data = resolve(spec, load("linear") if case == "linear" else images())
    population, recipe = prepare(spec, data.shape)
    seconds, began, loss = [], time.perf_counter(), 0.0
    for snapshot in fit(data, population, recipe, spec.steps, log_every=steps):
        loss = float(snapshot.parts["loss"].mean())
        seconds.append(time.perf_counter() - began)
        began = time.perf_counter()
    pace = median(seconds[1:])
    return {"rate": members * steps / pace, "first": seconds[0] - pace, "loss": loss}


def theirs(python: str, case: str, threads: int) -> float:
    """PyTorch's median rate with so many threads."""
    command = [python, str(PEER), str(threads), case, "10"]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["rate"]


def main() -> None:
    """Runs every case and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", help="a Python that has torch; without it ours alone is timed")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--members", nargs="+", type=int, default=[1, 10, 50])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print("| network | members | model-steps/s | PyTorch | ratio | compile s | loss |", flush=True)
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for case in options.cases:
        peers = []
        for members in options.members:
            if options.torch:
                peers += [theirs(options.torch, case, threads) for threads in (1, 2)]
            steps = CASES[case][-1].get(members, max(2, 100 // members))
            own = ours(case, members, steps, options.repeats)
            peer = max(peers, default=float("nan"))
            row = (
                case,
                members,
                f"{own['rate']:,.1f}",
                f"{peer:,.1f}",
                f"{own['rate'] / peer:.2f}",
            )
            print("|", " | ".join(map(str, row)), "|", end=" ")
            print(f"{own['first']:.1f} | {own['loss']:.4g} |", flush=True)


if __name__ == "__main__":
    main()
