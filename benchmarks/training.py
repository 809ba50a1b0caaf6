"""Model-steps a second on the CPU, next to PyTorch eager in the same run.

    make benchmark
    python benchmarks/training.py --torch PATH_TO_A_PYTHON_WITH_TORCH

Three networks at batch 64: the linear VAE on the 3-D set, the 1200-wide MLP pair (AdaGrad) and the
convolutional pair (Adam) on 64x64 binary images, for 1, 10 and 50 members. PyTorch
runs with one thread and with two, in turn with ours, for several rounds. Each figure is the median
over rounds of the median of a run's timed pieces, after compilation and warm-up; the better number
of threads counts. Data are random, never zero.
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
    "mlp": ("mlp", 5, "adagrad", 1e-3, {1: 60, 10: 15, 50: 5}),
    "convolutional": ("convolutional", 10, "adam", 1e-3, {1: 60, 10: 15, 50: 5}),
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
    parser.add_argument("--repeats", type=int, default=5, help="timed pieces of a run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of ours and theirs, in turn")
    options = parser.parse_args()
    print("| network | members | model-steps/s | PyTorch | ratio | compile s | loss |", flush=True)
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for case in options.cases:
        own = {members: [] for members in options.members}
        peers = {threads: [] for threads in ((1, 2) if options.torch else ())}
        for _ in range(options.rounds):
            for threads, rates in peers.items():
                rates.append(theirs(options.torch, case, threads))
            for members, runs in own.items():
                steps = CASES[case][-1].get(members, max(2, 100 // members))
                runs.append(ours(case, members, steps, options.repeats))
        peer = max(peers.values(), key=median, default=[float("nan")])
        for members, runs in own.items():
            row(case, members, runs, peer)


def row(case: str, members: int, runs: list[dict[str, float]], peer: list[float]) -> None:
    """Prints the medians over rounds, and in brackets the least and the most."""
    rates = [run["rate"] for run in runs]
    cells = [case, members, spread(rates), spread(peer), f"{median(rates) / median(peer):.2f}"]
    last = runs[-1]
    cells += [f"{median(run['first'] for run in runs):.1f}", f"{last['loss']:.4g}"]
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def spread(rates: list[float]) -> str:
    """The median, least and most of some rates."""
    return f"{median(rates):,.1f} ({min(rates):,.1f} to {max(rates):,.1f})"


if __name__ == "__main__":
    main()
