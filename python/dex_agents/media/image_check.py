"""SHA-256, type, size and structure of image bytes, in one call and without decoding a pixel.

Bytes are an image if they begin, and for JPEG and WebP also end, as one of its type:

========  ==========================================================================================
PNG       the signature, then an `IHDR` chunk with a width and a height
JPEG      SOI, a marker, and EOI at the end
GIF       the header, then a screen descriptor with a width and a height
WebP      a RIFF header with the size of the data, then a `VP8 `, `VP8L` or `VP8X` chunk
========  ==========================================================================================

Every core of this product accepts by these rules. The stricter walk goes on from part to part: PNG chunks
with their checksums to `IEND`, JPEG segments and scans to EOI, GIF blocks to the trailer, WebP chunks. Where
it does not reach the end, `ImageCheck.damage` says why. What follows the end is not looked at: cameras append
further pictures there.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from dex_agents.wire.images import ImageMimeType

try:
    from dex_agents import _native
except ImportError as error:
    message = (
        "dex_agents needs its extension `dex_agents._native`, which is not built for this Python: "
        "run `make build` in a checkout, or `pip install dex-agents-native`"
    )
    raise ImportError(message, name=error.name, path=error.path) from error

__all__ = ["ImageBuffer", "ImageCheck", "ImageDamage", "check_image", "check_images"]

ImageBuffer = bytes | bytearray | memoryview
"""Bytes of an image. Other objects with a buffer, such as `mmap`, are taken through `memoryview`."""

ImageDamage = Literal[
    "truncated", "checksum_mismatch", "invalid_header", "invalid_structure", "no_image_data"
]
"""Why an image cannot be read to its end: the bytes end first; a PNG chunk does not match its checksum; a
header holds a value that the format does not have; a part stands where none of its kind can; or all is there
but a picture."""


class ImageCheck(msgspec.Struct, frozen=True):
    """What is known about some bytes.

    Attributes:
        sha256: Their SHA-256 in 64 lower-case hexadecimal digits.
        size_bytes: How many there are.
        mime_type: The type that they begin like, or `None` when that is none of the four.
        is_image: Whether they are an image of that type.
        width: Pixels in a row as the header says, or `None` where it does not get that far.
        height: Rows, or `None` likewise.
        damage: Why the image cannot be read to its end, or `None` for one that is whole.
    """

    sha256: str
    size_bytes: int
    mime_type: ImageMimeType | None
    is_image: bool
    width: int | None
    height: int | None
    damage: ImageDamage | None

    @property
    def damaged(self) -> bool:
        """Whether this is an image that cannot be read to its end; most decoders show a part of it."""
        return self.damage is not None


def check_image(data: ImageBuffer) -> ImageCheck:
    """Hash and inspect bytes of any length, image or not.

    The GIL is released meanwhile, for 2 KiB and more. `bytes` and views of them are read where they are; a
    buffer that could change is copied first, so that hash and structure are those of one moment.

    Args:
        data: The bytes, of whatever item size and layout.

    Raises:
        TypeError: `data` has no buffer.
    """
    return ImageCheck(*_native.check_image(data))


def check_images(images: Iterable[ImageBuffer]) -> list[ImageCheck]:
    """Do what `check_image` does for several at once, on as many threads as help.

    Args:
        images: The bytes of each.

    Returns:
        One check for each, in the same order.

    Raises:
        TypeError: One of `images` has no buffer.
    """
    return [ImageCheck(*checked) for checked in _native.check_images(tuple(images))]
