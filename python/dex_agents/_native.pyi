"""The Rust extension. Only the seam modules import it; each says what a result means."""

from typing import Any, Final, Literal

__all__ = ["__version__", "build_profile", "encode_ascii", "encode_compact_sorted", "encode_unicode"]

__version__: Final[str]
build_profile: Final[Literal["debug", "release"]]

def encode_ascii(value: Any, /) -> str | None: ...
def encode_compact_sorted(value: Any, /) -> str | None: ...
def encode_unicode(value: Any, /) -> str | None: ...
