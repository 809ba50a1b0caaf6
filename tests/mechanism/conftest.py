"""Each test of the mechanism draws from a stream of its own, whatever ran before it."""

import zlib

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def own_stream(request):
    draw = getattr(request.module, "DRAW", None)
    if draw is not None:
        seed = zlib.crc32(request.node.name.encode())
        draw.bit_generator.state = np.random.default_rng(seed).bit_generator.state
