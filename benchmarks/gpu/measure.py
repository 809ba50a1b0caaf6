"""Every figure of docs/performance.md, "On a GPU", in one run, next to PyTorch on the same GPU.

    python benchmarks/gpu/measure.py
    python benchmarks/gpu/measure.py --sections training science --json figures.json

Data are random, never zero, but for the comparison of precisions, which trains on sprites. Rates
are medians of repeated runs after compilation and warm-up. `--torch` names a Python with PyTorch.
"""

import argparse
import json
import subprocess
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from statistics import median
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

from untwist.datasets import Dataset, load
from untwist.factors import FactorSpace
from untwist.training import Spec, encode, fit, program
from untwist.training.member import Recipe, Rows, Streams, draw
from untwist.training.memory import free_memory, member_bytes
from untwist.training.spec import prepare, resolve

BATCH = 64
STUDY = 12_600 * 300_000
"""Model-steps of the field's largest study: 12,600 models of 300,000 steps."""
FLOOR_BYTES, FLOOR_OPERATIONS = 70e6, 6.3e9
"""What a step of the convolutional pair must move and multiply, from its layers' shapes."""

CONVOLUTIONAL = {"architecture": "convolutional", "latents": 10, "optimizer": "adam"}
MLP = {"architecture": "mlp", "latents": 5, "optimizer": "adagrad"}

figures: dict[str, object] = {}


def say(*parts: object) -> None:
    print(*parts, flush=True)


def note(name: str, value: object, text: str) -> None:
    """Keeps a figure and prints it."""
    figures[name] = value
    say("|", name, "|", text, "|")


def noise(count: int, shape: tuple[int, ...], *, bits: bool) -> Dataset:
    """Random images, stored as bits or bytes."""
    size = int(np.prod(shape)) // (8 if bits else 1)
    block = np.random.default_rng(0).integers(0, 256, (8192, size), np.uint8)
    data = np.resize(block, (count, size)).reshape(count, *((size,) if bits else shape))
    space = FactorSpace(("item",), (count,), ("categorical",))
    source = {"source": "random", "twin": False}
    factors, peak = np.arange(count)[:, None], 1 if bits else 255
    return Dataset("noise", data, factors, space, "bernoulli", source, shape, peak, bits)


def spec_of(members: int, steps: int, log_every: int, **fields: object) -> Spec:
    rate = {"learning_rate": (1e-3,)}
    return Spec(seeds=tuple(range(members)), steps=steps, log_every=log_every, vary=rate, **fields)


def training_rate(data: Dataset, members: int, *, seconds: float = 0.8, **fields: object) -> dict:
    """Model-steps a second of `fit`, and the loss reached."""
    guess = 15_000 if fields["architecture"] == "convolutional" else 8000
    steps = max(20, int(guess * seconds / max(members, 8)))
    spec, data = resolve(spec_of(members, 6 * steps, steps, **fields), data)
    population, recipe = prepare(spec, data.shape)
    ticks, loss = [time.perf_counter()], 0.0
    for snapshot in fit(data, population, recipe, spec.steps, log_every=steps):
        loss = float(snapshot.parts["loss"].mean())
        ticks.append(time.perf_counter())
    paces = np.diff(ticks)
    pace = median(paces[1:])
    rate = members * steps / pace
    return {"rate": rate, "step": pace / steps, "first": float(paces[0] - pace), "loss": loss}


def ceilings() -> None:
    """What a copy and a product reach on this GPU."""
    x = jax.random.bits(jax.random.key(0), (2**30,))
    moved = 2 * x.nbytes / pace_of(jax.jit(lambda x: x ^ 1), x)
    note("copy", moved, f"{moved / 1e12:.2f} TB/s read and written")
    a = jax.random.normal(jax.random.key(1), (8192, 8192), jnp.bfloat16)
    made = 2 * 8192**3 / pace_of(jax.jit(jnp.matmul), a, a)
    note("product", made, f"{made / 1e12:.0f} TFLOP/s in bfloat16")


def pace_of(function, *arguments, repeats: int = 7) -> float:
    """Median seconds of a call, ten calls in flight at a time."""
    jax.block_until_ready(function(*arguments))
    paces = []
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in range(10):
            made = function(*arguments)
        jax.block_until_ready(made)
        paces.append((time.perf_counter() - began) / 10)
    return median(paces)


def training() -> None:
    """Model-steps a second of both networks."""
    data = noise(737_280, (64, 64, 1), bits=True)
    copy, product = figures.get("copy", 4.3e12), figures.get("product", 7.9e14)
    rows = [
        *(("convolutional", "bfloat16", n, CONVOLUTIONAL) for n in (1, 64, 256)),
        *(("convolutional", "float32", n, CONVOLUTIONAL) for n in (1, 64, 256)),
        *(("mlp", "bfloat16", n, MLP) for n in (1, 32, 64)),
        ("mlp", "float32", 32, MLP),
    ]
    for case, precision, members, fields in rows:
        got = training_rate(data, members, precision=precision, **fields)
        text = f"{got['rate']:,.0f} model-steps/s, {got['first']:.0f} s to compile"
        if case == "convolutional":
            memory = got["rate"] * FLOOR_BYTES * (2 if precision == "float32" else 1) / copy
            work = got["rate"] * FLOOR_OPERATIONS / product
            days = STUDY / got["rate"] / 86400
            text += f", {memory:.0%} of the memory limit, {work:.0%} of the arithmetic limit"
            text += f", the 12,600-model study in {days:.1f} days"
        note(f"{case} {precision} {members}", got, f"{text}, loss {got['loss']:.1f}")
    plain = patch.object(program, "fuse", lambda tree, fused=None: tree)
    for precision in ("bfloat16", "float32"):
        with patch.object(program, "_programs", {}), plain:
            got = training_rate(data, 64, precision=precision, **CONVOLUTIONAL)
        text = f"{got['rate']:,.0f} model-steps/s"
        note(f"convolutional {precision} 64, without the kernels", got, text)


def torch(python: str) -> None:
    """The same networks in PyTorch, one model at a time."""
    peer = str(Path(__file__).parent / "torch_peer.py")
    modes = ("eager", "loader", "compiled", "graph", "graph-bfloat16")
    for case, mode in [("convolutional", m) for m in modes] + [
        ("mlp", "eager"),
        ("mlp", "compiled"),
    ]:
        command = [python, peer, case, mode, "4"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=150)
        if done.returncode:
            note(f"torch {case} {mode}", None, "failed: " + done.stderr.strip()[-200:])
            continue
        got = json.loads(done.stdout.strip().splitlines()[-1])
        note(f"torch {case} {mode}", got, f"{got['rate']:,.0f} steps/s, loss {got['loss']:.1f}")


def science(seeds: int = 64, steps: int = 2000) -> None:
    """Losses of bfloat16 and float32 after 2,000 steps on sprites, and their spread over seeds.

    Means over eight seeds differ by half a spread by chance alone, float32's from one run to the
    next as well; those over 64 by a sixth.
    """
    data = load("sprites", scales=3, orientations=8, positions=16)
    ends = {}
    for precision in ("float32", "bfloat16"):
        fields = {"precision": precision, **CONVOLUTIONAL}
        spec, data = resolve(spec_of(seeds, steps, 200, **fields), data)
        population, recipe = prepare(spec, data.shape)
        *_, last = fit(data, population, recipe, steps, log_every=200)
        parts = {name: last.parts[name] for name in ("reconstruction", "kl", "kl_per_latent")}
        parts["kl_per_latent"] = -np.sort(-parts["kl_per_latent"], axis=1)
        ends[precision] = parts
    for name, wide in ends["float32"].items():
        narrow, spread = ends["bfloat16"][name], wide.std(0, ddof=1)
        shift = np.abs(narrow.mean(0) - wide.mean(0))
        inside = bool(np.all(shift <= np.maximum(spread, 1e-3)))
        values = {"float32": wide.mean(0), "bfloat16": narrow.mean(0), "spread": spread}
        text = "; ".join(f"{key} {np.round(value, 3)}" for key, value in values.items())
        kept = {key: np.asarray(value).tolist() for key, value in values.items()}
        note(f"science {name}", kept, f"{text}; within the spread: {inside}")


def memory() -> None:
    """Members a GPU holds by the program's own analysis, and a population larger than memory."""
    data = noise(737_280, (64, 64, 1), bits=True)
    limit = free_memory(jax.devices()[0])
    for case, fields in (("convolutional", CONVOLUTIONAL), ("mlp", MLP)):
        spec, data = resolve(spec_of(16, 2, 1, precision="bfloat16", **fields), data)
        population, recipe = prepare(spec, data.shape)
        rows = program.place(Rows.of(data, data.data), None, shared=True)
        members = program.place(population, None)
        compiled = program.compile_advance((members, recipe), rows, None)
        each = member_bytes(compiled, 16, rows.data.nbytes) or 1
        fits = (limit - rows.data.nbytes) // each
        text = f"{fits:,} in {limit / 2**30:.0f} GiB, {each / 2**20:.0f} MiB each"
        note(f"members a GPU {case}", fits, text)
    made, compiled = set(), program.compile_advance

    def counting(*arguments):
        advance = compiled(*arguments)
        made.update(program._programs)
        return advance

    spec, data = resolve(spec_of(64, 800, 200, precision="bfloat16", **CONVOLUTIONAL), data)
    population, recipe = prepare(spec, data.shape)
    cap, ticks, splits = 2 * data.data.nbytes + 500 * 2**20, [], 1
    fresh = patch.object(program, "_programs", {})
    with fresh, patch("untwist.training.pieces.compile_advance", counting):
        for snapshot in fit(data, population, recipe, 800, log_every=200, memory=cap):
            splits = snapshot.splits
            ticks.append(time.perf_counter())
    rate = 64 * 200 / median(np.diff(ticks))
    text = f"64 members in {splits} pieces, {len(made)} programs compiled in all, "
    note("pieces", {"splits": splits, "rate": rate}, text + f"{rate:,.0f} model-steps/s")


def batches() -> None:
    """How long drawing the batches takes, as a share of the step."""
    sets = {
        "dSprites-sized": noise(737_280, (64, 64, 1), bits=True),
        "Shapes3D-sized": noise(480_000, (64, 64, 3), bits=False),
    }
    for name, data in sets.items():
        got = training_rate(data, 64, precision="bfloat16", **CONVOLUTIONAL)
        rows = program.place(Rows.of(data, data.data), None, shared=True)
        _, recipe = prepare(resolve(spec_of(1, 2, 1, **CONVOLUTIONAL), data)[0], data.shape)
        pace = pace_of(jax.jit(partial(draw_all, recipe, 100)), rows, repeats=3) / 100
        share = pace / got["step"]
        text = f"{got['rate']:,.0f} model-steps/s on {data.data.nbytes / 1e9:.2f} GB, "
        text += f"batches {pace * 1e6:.0f} of {got['step'] * 1e6:.0f} us: {share:.1%}"
        note(f"batches {name}", {"share": share, **got}, text)


def draw_all(recipe: Recipe, count: int, rows: Rows) -> jax.Array:
    """So many batches of 64 members one after another, as bfloat16 in memory."""

    def one(seed: jax.Array, number: jax.Array) -> jax.Array:
        return draw(recipe, rows, number, Streams.of(seed).order).examples.astype(jnp.bfloat16)

    def body(number: jax.Array, _: jax.Array) -> jax.Array:
        return jax.vmap(one, in_axes=(0, None))(jnp.arange(64, dtype=jnp.uint32), number)

    start = jnp.zeros((64, BATCH, *rows.shape), jnp.bfloat16)
    return jax.lax.fori_loop(0, count, body, start)


def geometry(samples: int = 10_000, members: int = 64) -> None:
    """Jacobians, their spectra and the distance to orthogonality for a whole population."""
    from untwist.mechanism import distance_to_orthogonality, local_geometry, spectrum

    fields = {"precision": "float32", **CONVOLUTIONAL}
    spec, _ = resolve(spec_of(members, 2, 1, **fields), noise(8192, (64, 64, 1), bits=True))
    models = program.place(prepare(spec, (64, 64, 1))[0].model, None)
    codes = np.random.default_rng(0).standard_normal((members, samples, 10), np.float32)
    times, text = {}, []

    def timed(name: str, function, *arguments):
        first = time.perf_counter()
        function(*arguments)
        began = time.perf_counter()
        made = function(*arguments)
        times[name] = time.perf_counter() - began
        times[f"{name}, first"] = began - first
        text.append(f"{name} {times[name]:.2f} s")
        return made

    found = timed(
        "Jacobians", partial(local_geometry, likelihood="bernoulli"), models.decode, codes
    )
    vectors = timed("spectra", spectrum, found.gram).vectors
    distances = timed("DtO", distance_to_orthogonality, vectors)
    text.append(f"mean distance {distances.mean():.2f}")
    note("geometry", times, "; ".join(text))


def encoding(members: int = 64) -> None:
    """A 737,280-image grid through every encoder of a population, and through its decoders too."""
    data = noise(737_280, (64, 64, 1), bits=True)
    for precision in ("bfloat16", "float32"):
        fields = {"precision": precision, **CONVOLUTIONAL}
        models = prepare(resolve(spec_of(members, 2, 1, **fields), data)[0], data.shape)[0].model
        models = program.place(models, None)
        for losses in (False, True):
            encode(models, data, np.arange(4096), losses=losses)
            began = time.perf_counter()
            got = encode(models, data, losses=losses)
            pace = time.perf_counter() - began
            text = f"{pace:.1f} s: {members * len(data) / pace / 1e6:.2f} million images/s"
            text += f", mean loss {got.losses.mean():.1f}" if losses else ", codes alone"
            note(f"encoding {precision}{', losses' * losses}", pace, text)


SECTIONS = (ceilings, training, torch, science, encoding, geometry, memory, batches)


def main() -> None:
    """Runs the sections and prints their figures."""
    names = [section.__name__ for section in SECTIONS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", nargs="+", default=names, choices=names)
    parser.add_argument("--torch", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--json", type=Path, help="where to keep the figures")
    options = parser.parse_args()
    say(jax.devices()[0].device_kind, "| jax", jax.__version__)
    for section in SECTIONS:
        if section.__name__ not in options.sections:
            continue
        say(f"\n**{section.__name__}**\n\n| what | figure |\n| --- | --- |")
        began = time.perf_counter()
        try:
            partial(section, options.torch)() if section is torch else section()
        except Exception:  # a section that fails must not cost the others
            traceback.print_exc()
        say(f"\n{section.__name__}: {time.perf_counter() - began:.0f} s")
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
