"""Throughput and memory of the mechanism's numbers.

    python benchmarks/mechanism.py            distance to orthogonality, then the decoder
    python benchmarks/mechanism.py --items 100000 --chunk 512

The decoder is the convolutional one of the field, with 10 latents, on 64x64 images with 1 channel.
A figure is the best of several repeats after compilation. Memory is the process's peak, which the
number of items must not raise.
"""

import argparse
import resource
import time

import jax
import numpy as np

from untwist.mechanism import distance_to_orthogonality, local_fits, local_geometry, spectrum
from untwist.mechanism.posterior import Posteriors
from untwist.models import ARCHITECTURES, LIKELIHOODS, build


def best(function, repeats: int) -> float:
    """Seconds of the fastest call."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def peak() -> float:
    """The process's largest resident size so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--fits", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    device = jax.devices()[0]
    print(f"{device.platform} {device.device_kind}, jax {jax.__version__}")
    print("| what | items | seconds | items/s | peak memory GB |\n| --- | --- | --- | --- | --- |")
    turns = np.linalg.qr(np.random.default_rng(0).standard_normal((10_000, 10, 10)))[0]
    seconds = best(lambda: distance_to_orthogonality(turns), options.repeats)
    row("distance to orthogonality, 10x10", 10_000, seconds)
    bernoulli = LIKELIHOODS["bernoulli"]()
    model = build(ARCHITECTURES["convolutional"], (64, 64, 1), 10, bernoulli, key=jax.random.key(0))
    draw = np.random.default_rng(0)
    for items in options.items:
        codes = draw.standard_normal((items, 10)).astype(np.float32)

        def whole(codes: np.ndarray = codes) -> None:
            gram = local_geometry(
                model.decode, codes, likelihood="bernoulli", chunk=options.chunk
            ).gram
            distance_to_orthogonality(spectrum(gram).vectors)

        local_geometry(model.decode, codes[:600], likelihood="bernoulli", chunk=options.chunk)
        row("Jacobian, SVD and distance, 64x64", items, best(whole, options.repeats))
    posteriors = Posteriors(codes[: options.fits], np.full((options.fits, 10), 0.1, np.float32))

    def fits() -> None:
        local_fits(model.decode, posteriors, key=jax.random.key(0))

    fits()
    row("local fits, 64 draws, 4096 outputs", options.fits, best(fits, options.repeats))


def row(what: str, items: int, seconds: float) -> None:
    """Prints one row."""
    print(
        f"| {what} | {items:,} | {seconds:.3g} | {items / seconds:,.0f} | {peak():.2f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
