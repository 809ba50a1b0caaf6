"""What the figures of an explanation are drawn from."""

import numpy as np
from numpy import ndarray

from untwist.mechanism.explanation import Explanation
from untwist.mechanism.geometry import Geometry
from untwist.mechanism.orthogonality import column_norms
from untwist.mechanism.subject import Subject

POINTS = 500
"""At most how many items a figure shows."""


def figures(found: Explanation, subject: Subject, geometry: Geometry | None) -> dict[str, ndarray]:
    """Returns arrays to draw by name, as float32 or int32, of at most so many items."""
    few = slice(0, POINTS)
    some = subject.some(subject.depth.items)
    arrays = {
        "active": found.active.astype(np.int32),
        "mean_variance": subject.posteriors.variance.mean(0),
    }
    if geometry is not None:
        arrays["column_norms"] = column_norms(geometry.gram)[few]
    if some.sigma is not None:
        arrays["variance"] = some.variance[few]
    if found.orthogonality is not None:
        arrays["distance"] = found.orthogonality.distance[few]
        arrays["random_distance"] = np.array(found.orthogonality.random_distance)
        arrays["cosine"] = found.orthogonality.cosine
        arrays["singular_values"] = found.orthogonality.singular_values[few]
    if found.covariance is not None:
        arrays["predicted_variance"] = found.covariance.predicted[few]
    if found.free is not None:
        arrays["free_angles"] = np.degrees(found.free.angles)
    if found.matching is not None:
        arrays["information"] = found.matching.information
    for one in found.profiles or ():
        arrays[f"profile.{one.latent}.positions"] = one.positions
        arrays[f"profile.{one.latent}.singular_values"] = one.singular_values
        arrays[f"profile.{one.latent}.length"] = one.length
    return {
        name: np.asarray(value, np.int32 if value.dtype == np.int32 else np.float32)
        for name, value in arrays.items()
    }
