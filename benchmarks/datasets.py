"""How fast sprites are drawn and decoded, and scenes traced: `python benchmarks/datasets.py`.

`python benchmarks/datasets.py NAME OPTION=VALUE ...` draws one set once and prints the time, for
the full grids: they go into UNTWIST_CACHE (5.9 GB for shapes3d_twin, 12.7 GB for mpi3d_twin).
"""

import functools
import platform
import resource
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from untwist.datasets import decode_examples, load, parse_options, sprites
from untwist.datasets.faces_scene import draw_face
from untwist.datasets.faces_twin import identity_vectors
from untwist.datasets.mpi3d_scene import draw_mpi3d
from untwist.datasets.shapes3d_scene import draw_shapes3d

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


def scenes():
    """One picture of each scene, by its function of the factors; one at a time, 64 pixels."""
    room = jnp.array([0.1, 0.6, 0.3, 1.0, 10.0])
    arm = jnp.array([0.9, 0.2, 0.15, 0.15, 0.6, 0.45, 0.26, 27.0, -40.0, 20.0])
    head, pose = identity_vectors(1)[0], jnp.array([20.0, 5.0, 30.0])
    return {
        "shapes3d": (functools.partial(draw_shapes3d, 0), room),
        "mpi3d": (functools.partial(draw_mpi3d, 1), arm),
        "mpi3d, everyday object": (functools.partial(draw_mpi3d, 0, complicated=True), arm),
        "face": (functools.partial(draw_face, head), pose),
    }


def trace_scenes():
    """Images a second of each scene, every one traced anew, in batches of 32."""
    for name, (draw, values) in scenes().items():
        batch = jnp.tile(values, (32, 1))
        many = jax.jit(jax.vmap(draw))
        seconds = best(lambda many=many, batch=batch: many(batch).block_until_ready())
        print(f"{name}: {32 / seconds:,.0f} images a second, traced one by one")


def draw_once(name, texts):
    """How long one set takes, drawn once."""
    start = time.perf_counter()
    dataset = load(name, **parse_options(name, texts))
    seconds = time.perf_counter() - start
    print(f"{name}: {len(dataset):,} images in {seconds:.1f} s, {len(dataset) / seconds:,.0f}/s")


def main():
    if len(sys.argv) > 1:
        draw_once(sys.argv[1], sys.argv[2:])
        return
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
    trace_scenes()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory of the process: {peak:.2f} GB")


if __name__ == "__main__":
    main()
