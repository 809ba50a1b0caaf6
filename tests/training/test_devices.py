"""Several devices share the member axis: eight forced host devices, in a process of their own."""

import os
import subprocess
import sys

CODE = """
import jax, numpy as np
from untwist.datasets import load
from untwist.training import Conduct, Spec, train

assert len(jax.devices()) == 8
spec = Spec("linear", {"samples": 500}, "linear", latents=2, seeds=tuple(range(11)), steps=1000,
            batch=32, vary={"beta": (1e-3,)})
def trained(devices):
    return train(spec, conduct=Conduct(progress=False, devices=devices))
one, eight = trained(jax.devices()[:1]), trained(jax.devices())
assert len(eight) == 11
for ours, theirs in zip(jax.tree.leaves(eight.models), jax.tree.leaves(one.models), strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
np.testing.assert_allclose(eight.history["loss"], one.history["loss"], rtol=1e-4)
print("the same on one and on eight devices")
"""


# Eleven members abreast on one device are vectorized otherwise than two: the last bits differ.


def test_eight_devices_give_what_one_gives():
    flags = "--xla_force_host_platform_device_count=8"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True
    )
    assert "the same on" in done.stdout, done.stderr
