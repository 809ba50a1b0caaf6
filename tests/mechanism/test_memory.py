"""Memory does not grow with the number of items.

The peak is read from /proc: what `getrusage` says of a child includes its parent's before the fork.
"""

import subprocess
import sys

import pytest

CODE = """
import sys
import jax, numpy as np
from untwist.mechanism import distance_to_orthogonality, local_geometry, spectrum
from untwist.models import ARCHITECTURES, LIKELIHOODS, build

bernoulli = LIKELIHOODS["bernoulli"]()
architecture = ARCHITECTURES["convolutional"]
model = build(architecture, (64, 64, 1), 10, bernoulli, key=jax.random.key(0))
codes = np.random.default_rng(0).standard_normal((int(sys.argv[1]), 10)).astype(np.float32)
gram = local_geometry(model.decode, codes, likelihood="bernoulli").gram
assert distance_to_orthogonality(spectrum(gram).vectors).shape == (len(codes),)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the process's peak from /proc")
def test_ten_thousand_jacobians_of_the_convolutional_decoder_fit_in_two_gigabytes():
    few, many = (
        float(
            subprocess.run(
                [sys.executable, "-c", CODE, count], capture_output=True, check=True
            ).stdout
        )
        for count in ("500", "10000")
    )
    assert many < 2.0
    assert many < few + 0.1
