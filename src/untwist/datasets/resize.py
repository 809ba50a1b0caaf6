"""Resizing images as the field does: Pillow's filters on bytes."""

from typing import Literal

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from untwist.types import InputError

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "lanczos": Image.Resampling.LANCZOS}


def resize_images(
    images: UInt8[np.ndarray, "item height width channel"],
    size: int,
    filter: Literal["bilinear", "lanczos"],
) -> UInt8[np.ndarray, "item side side channel"]:
    """Returns square images of another side; the same ones where the side is theirs.

    Args:
        images: uint8.
        size: The new height and width.
        filter: "bilinear", as torchvision resizes by default, or "lanczos", as
            disentanglement_lib does.
    """
    if images.shape[1:3] == (size, size):
        return images
    out = np.empty((len(images), size, size, images.shape[-1]), np.uint8)
    for i, image in enumerate(images):
        flat = image[..., 0] if image.shape[-1] == 1 else image
        small = Image.fromarray(flat).resize((size, size), FILTERS[filter])
        out[i] = np.asarray(small).reshape(size, size, -1)
    return out


def check_size(name: str, size: int, largest: int) -> None:
    """Raises unless images of that side can be asked for."""
    if not 8 <= size <= largest:
        raise InputError(f"{name}: expected a size from 8 to {largest} pixels, but got size={size}")
