"""The Rust extension. Only the seam modules import it; each says what a result means."""

from collections.abc import Sequence
from typing import Any, Final, Literal, Self, TypeAlias, final

from typing_extensions import Buffer

__all__ = [
    "TOKEN_FEATURE_NAMES",
    "TokenWeights",
    "__version__",
    "build_profile",
    "check_image",
    "check_images",
    "encode_ascii",
    "encode_compact_sorted",
    "encode_ui_frames",
    "encode_unicode",
    "read_json_object",
]

TOKEN_FEATURE_NAMES: Final[list[str]]
__version__: Final[str]
build_profile: Final[Literal["debug", "release"]]

# An object and whether text in it was healed; or what is wrong, line, column and the key that is repeated.
_JsonProblemKind: TypeAlias = Literal[
    "not_json", "cut_off", "not_an_object", "number_out_of_range", "repeated_key", "too_deep"
]
_ReadJsonObject: TypeAlias = tuple[dict[str, Any], bool] | tuple[_JsonProblemKind, int, int, str | None]

# SHA-256, length, media type by its first bytes, whether it is that image, width, height, damage.
_MimeType: TypeAlias = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
_Damage: TypeAlias = Literal[
    "truncated", "checksum_mismatch", "invalid_header", "invalid_structure", "no_image_data"
]
_ImageCheck: TypeAlias = tuple[str, int, _MimeType | None, bool, int | None, int | None, _Damage | None]

def check_image(data: Buffer, /) -> _ImageCheck: ...
def check_images(images: tuple[Buffer, ...], /) -> list[_ImageCheck]: ...
def encode_ascii(value: Any, /) -> str | None: ...
def encode_compact_sorted(value: Any, /) -> str | None: ...
def encode_ui_frames(parts: Any, event_ids: list[str] | None, max_joined_bytes: int, /) -> bytes | None: ...
def encode_unicode(value: Any, /) -> str | None: ...
def read_json_object(text: str, max_depth: int, /) -> _ReadJsonObject: ...

@final
class TokenWeights:
    def __new__(cls, weights: Sequence[int], /) -> Self: ...
    def estimate_millitokens(self, texts: tuple[str, ...], /) -> int: ...
