"""How fast sprites are drawn and decoded, and what they take: `python benchmarks/datasets.py`."""

import functools
import platform
import resource
import time

import jax
import jax.numpy as jnp
import numpy as np

from untwist.datasets import decode_examples, sprites

GRIDS = {
    "64×64, full grid": {},
    "32×32, default grid": {"size": 32},
    "32×32, 3·3·8·8·8": {"size": 32, "scales": 3, "orientations": 8, "positions": 8},
    "16×16, default grid": {"size": 16},
}


def best(action, times=3):
    """The shortest of some runs in seconds, after one that compiles."""
    action()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main():
    print(f"jax {jax.__version__}, {platform.machine()}, {jax.devices()[0].device_kind}")
    print("| grid | images | first seconds | seconds | images a second | MB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, options in GRIDS.items():
        start = time.perf_counter()
        dataset = sprites(**options)
        first = time.perf_counter() - start
        seconds = best(functools.partial(sprites, **options))
        speed, size = len(dataset) / seconds, dataset.data.nbytes / 1e6
        times = f"{first:.2f} | {seconds:.2f} | {speed:,.0f}"
        print(f"| {name} | {len(dataset):,} | {times} | {size:.1f} |")
    dataset = sprites()
    rows = jnp.asarray(dataset.data[:: len(dataset) // 640][:640])
    decode = jax.jit(functools.partial(decode_examples, shape=(64, 64, 1), peak=1, bits=True))
    seconds = best(lambda: decode(rows).block_until_ready(), 20)
    print(f"decode bits on the device: {len(rows) / seconds:,.0f} images a second")
    index = np.arange(640)
    seconds = best(lambda: dataset.examples(index), 20)
    print(f"decode bits on the host: {len(index) / seconds:,.0f} images a second")
    print(f"checksum of the full set: {best(lambda: sprites().checksum()):.2f} s with drawing")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory of the process: {peak:.2f} GB")


if __name__ == "__main__":
    main()
