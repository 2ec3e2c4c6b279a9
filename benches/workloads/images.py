"""Images as sessions meet them, made by Pillow from a seed: noise, so that every format has much to store."""

# Pillow comes with the bench tools only.
# pyright: reportMissingImports=false

import io
import random
from typing import Final

from PIL import Image

__all__ = ["LARGEST_IMAGE_BYTES", "build_images", "build_noise"]

LARGEST_IMAGE_BYTES: Final = 3_750_000

_SAVE_OPTIONS: Final = {
    "PNG": {},
    "JPEG": {"quality": 85},
    "GIF": {},
    "WEBP": {"quality": 85},
}


def build_noise(length: int, seed: int = 1) -> bytes:
    """Return bytes that are no image."""
    return b"noise" + random.Random(seed).randbytes(length - 5)


def build_images(pixels: int = 512) -> dict[str, bytes]:
    """Return a square image of each format, by the name and size of the file."""
    images: dict[str, bytes] = {}
    noise = Image.frombytes("RGB", (pixels, pixels), random.Random(2).randbytes(3 * pixels * pixels))
    for format_name, options in _SAVE_OPTIONS.items():
        picture = noise.quantize(64) if format_name == "GIF" else noise
        file = io.BytesIO()
        picture.save(file, format_name, **options)
        images[f"{format_name} {len(file.getvalue()) // 1024} KiB"] = file.getvalue()
    return images
