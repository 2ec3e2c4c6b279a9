"""Images: what session state holds of one, and the types that are accepted."""

from typing import Literal

import msgspec

__all__ = ["AgentImageReference", "ImageMimeType"]

ImageMimeType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
"""The accepted types; which of them some bytes are is read from the bytes alone."""


class AgentImageReference(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    """Stands for an image in session state; the bytes are in a media store.

    Attributes:
        uri: Where the bytes are: `<store>/sha256/<sha256>`, at most `limits.MAX_IMAGE_URI_LENGTH` bytes.
        mime_type: Their type: `image/png`, `image/jpeg`, `image/gif` or `image/webp`. A plain string, so
            that a reference that names another can be read, and refused by name.
        sha256: Their SHA-256 in 64 lower-case hexadecimal digits.
        size_bytes: How many there are, at most `limits.MAX_IMAGE_BYTES`.
    """

    uri: str
    mime_type: str
    sha256: str
    size_bytes: int
