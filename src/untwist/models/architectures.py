"""Architectures as data: the field's, and the published ones of the five papers.

Names read `paper-dataset`. allen2024 is a theory paper and has none. Nothing is learned from the
likelihood, so its parameters are not part of an architecture.
"""

from dataclasses import dataclass

from untwist.models.networks import Layers


@dataclass(frozen=True)
class Architecture:
    """An encoder and a decoder.

    Attributes:
        encoder: Its hidden layers.
        decoder: Its hidden layers.
        latents: The published number of latents, if one is stated.
        source: Where it is published.
        departures: What differs from the print, and why.
    """

    encoder: Layers
    decoder: Layers
    latents: int | None = None
    source: str = ""
    departures: str = ""


_CONVOLUTIONAL = Architecture(
    Layers(dense=(256,), channels=(32, 32, 64, 64), kernels=(4, 4, 4, 4)),
    Layers(dense=(256,), channels=(64, 64, 32, 32), kernels=(4, 4, 4, 4)),
    source="the field's pair: four 4x4 convolutions of stride 2, dense 256, mirrored",
)
_WIDE = Architecture(
    Layers(dense=(1200, 1200)),
    Layers(dense=(1200, 1200, 1200), activation="tanh"),
    latents=5,
    source="rolinek2019, Table S3 (dSprites)",
)
_DIGITS = Architecture(
    Layers(dense=(400,)),
    Layers(dense=(500, 500), activation="tanh"),
    latents=6,
    source="rolinek2019, Table S3 (MNIST and Fashion-MNIST)",
)
_LIBRARY = Architecture(
    Layers(dense=(256,), channels=(32, 32, 64, 64), kernels=(4, 4, 2, 2)),
    Layers(dense=(256,), channels=(64, 64, 32, 32), kernels=(4, 4, 4, 4)),
    source="zietlow2021, Section 5.1: the CNN of disentanglement_lib, commit 76f41e39",
)
_HEADS = "linear heads instead of the printed relu on latents and output (erratum E31)"
_SHAPES = Architecture(
    Layers(dense=(256,), channels=(32, 32, 64, 64), kernels=(4, 4, 4, 4)),
    Layers(dense=(64,), channels=(64, 64, 32, 32), kernels=(4, 4, 4, 4)),
    source="bhowal2024, Table 3 (3DShapes and MPI3D)",
    departures=f"one stride-2 layer fewer in the decoder (erratum E30); no batch norm; {_HEADS}",
)

ARCHITECTURES: dict[str, Architecture] = {
    "linear": Architecture(Layers(), Layers(), source="affine maps both ways"),
    "mlp": _WIDE,
    "convolutional": _CONVOLUTIONAL,
    "small": Architecture(
        Layers(dense=(128, 128)), Layers(dense=(128, 128)), source="a small MLP to try things with"
    ),
    "rolinek2019-dsprites": _WIDE,
    "rolinek2019-linear": Architecture(
        Layers(), Layers(), latents=2, source="rolinek2019, Table S3 (Synth. Lin.)"
    ),
    "rolinek2019-nonlinear": Architecture(
        Layers(dense=(60, 40, 20), activation="tanh"),
        Layers(dense=(60, 40, 20), activation="tanh"),
        latents=2,
        source="rolinek2019, Table S3 (Synth. Non-Lin.)",
    ),
    "rolinek2019-mnist": _DIGITS,
    "rolinek2019-fashion-mnist": _DIGITS,
    "zietlow2021-dsprites": _LIBRARY,
    "zietlow2021-shapes3d": _LIBRARY,
    "bhowal2024-dsprites": Architecture(
        Layers(dense=(1200, 1200)),
        Layers(dense=(1200, 1200)),
        source="bhowal2024, Table 3 (dSprites)",
        departures=_HEADS,
    ),
    "bhowal2024-faces": Architecture(
        Layers(dense=(512,), channels=(32, 32, 64, 64), kernels=(4, 4, 4, 4)),
        Layers(dense=(512,), channels=(64, 64, 64, 32), kernels=(4, 4, 4, 4)),
        source="bhowal2024, Table 3 (3DFaces)",
        departures=f"a 4x4 layer before the strides (erratum E29); no batch norm; {_HEADS}",
    ),
    "bhowal2024-shapes3d": _SHAPES,
    "bhowal2024-mpi3d": _SHAPES,
    "sikka2019-linear": Architecture(
        Layers(), Layers(), latents=2, source="sikka2019, Section IV-B"
    ),
    "sikka2019-digits": Architecture(
        Layers(dense=(256, 200, 200), activation="tanh"),
        Layers(dense=(200, 200, 256), activation="tanh"),
        latents=2,
        source="sikka2019, Appendix C",
    ),
}
