"""Memory does not grow with the number of items."""

import subprocess
import sys

import pytest

CODE = """
import resource, sys
import jax, numpy as np
from untwist.mechanism import distance_to_orthogonality, local_geometry, spectrum
from untwist.models import ARCHITECTURES, LIKELIHOODS, build

bernoulli = LIKELIHOODS["bernoulli"]()
architecture = ARCHITECTURES["convolutional"]
model = build(architecture, (64, 64, 1), 10, bernoulli, key=jax.random.key(0))
codes = np.random.default_rng(0).standard_normal((int(sys.argv[1]), 10)).astype(np.float32)
gram = local_geometry(model.decode, codes, likelihood="bernoulli").gram
assert distance_to_orthogonality(spectrum(gram).vectors).shape == (len(codes),)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


@pytest.mark.slow
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
