"""What `image_check` must find: `hashlib`, `zlib.crc32` and plain slicing, one rule a line."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator

from dex_agents.media.image_check import ImageCheck, ImageDamage
from dex_agents.wire.images import ImageMimeType

Size = tuple[int, int]


class DamageError(Exception):
    def __init__(self, damage: ImageDamage) -> None:
        super().__init__(damage)
        self.damage: ImageDamage = damage


class Bytes:
    """Bytes that are read from the front; asking for more than there are is damage."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        if self.position + count > len(self.data):
            raise DamageError("truncated")
        self.position += count
        return self.data[self.position - count : self.position]

    def big(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def little(self, count: int) -> int:
        return int.from_bytes(self.take(count), "little")

    def at_end(self) -> bool:
        return self.position == len(self.data)


def require(condition: bool, damage: ImageDamage) -> None:
    if not condition:
        raise DamageError(damage)


# --- PNG ----------------------------------------------------------------------------------------


def is_png(data: bytes) -> bool:
    return len(data) >= 33 and data[8:16] == b"\0\0\0\x0dIHDR" and 0 not in png_size(data)


def png_size(data: bytes) -> Size:
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    rest = Bytes(data[8:])
    while True:
        length = rest.big(4)
        kind = rest.take(4)
        require(length < 2**31 and kind.isalpha() and kind.isascii(), "invalid_structure")
        body = rest.take(length)
        require(rest.big(4) == zlib.crc32(kind + body), "checksum_mismatch")
        yield kind, body


PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}


def walk_png(data: bytes) -> None:
    seen: list[bytes] = []
    colour = -1
    for kind, body in png_chunks(data):
        critical = [one for one in seen if one[:1].isupper()]
        if kind == b"IHDR":
            require(not seen, "invalid_structure")
            depth, colour, compression, row_filter, interlace = body[8:13]
            known = depth in PNG_DEPTHS.get(colour, ()) and compression == row_filter == 0 and interlace < 2
            require(known and max(png_size(data)) < 2**31, "invalid_header")
        elif kind == b"PLTE":
            require(critical == [b"IHDR"], "invalid_structure")
            require(len(body) in range(3, 769, 3), "invalid_header")
        elif kind == b"IDAT":
            require(b"IDAT" not in seen or seen[-1] == b"IDAT", "invalid_structure")
            require(colour != 3 or b"PLTE" in seen, "invalid_structure")
        elif kind == b"IEND":
            require(b"IDAT" in seen, "no_image_data")
            require(body == b"", "invalid_structure")
            return
        else:
            require(kind[:1].islower(), "invalid_structure")
        seen.append(kind)


# --- JPEG ---------------------------------------------------------------------------------------


def is_jpeg(data: bytes) -> bool:
    return len(data) >= 6 and data[3] not in (0x00, 0xFF) and data[-2:] == b"\xff\xd9"


class JpegWalk:
    def __init__(self, data: bytes) -> None:
        self.rest = Bytes(data)
        self.size: Size | None = None
        self.has_pixels = False

    def run(self) -> None:
        require(self.rest.take(2) == b"\xff\xd8", "invalid_structure")
        while (marker := self.marker()) != 0xD9:
            if marker == 0x01:
                continue
            require(marker >= 0xC0 and marker not in range(0xD0, 0xD9), "invalid_structure")
            length = self.rest.big(2)
            require(length >= 2, "invalid_structure")
            body = self.rest.take(length - 2)
            if marker in range(0xC0, 0xD0) and marker not in (0xC4, 0xC8, 0xCC):
                self.frame(Bytes(body))
            elif marker == 0xDC:
                self.line_count(Bytes(body))
            elif marker == 0xDA:
                self.scan(body)
        if self.size is not None and self.size[1] == 0:
            raise DamageError("invalid_header")
        require(self.size is not None and self.has_pixels, "no_image_data")

    def marker(self) -> int:
        require(self.rest.take(1) == b"\xff", "invalid_structure")
        while (marker := self.rest.big(1)) == 0xFF:
            pass
        return marker

    def frame(self, body: Bytes) -> None:
        require(self.size is None, "invalid_structure")
        body.take(1)
        height, width, components = body.big(2), body.big(2), body.big(1)
        require(width > 0 and components > 0 and len(body.data) == 6 + 3 * components, "invalid_header")
        self.size = width, height

    def line_count(self, body: Bytes) -> None:
        lines = body.big(2)
        require(lines > 0, "invalid_header")
        if self.size is None:
            raise DamageError("invalid_structure")
        self.size = self.size[0], lines

    def scan(self, body: bytes) -> None:
        require(self.size is not None, "invalid_structure")
        components = Bytes(body).big(1)
        require(components in range(1, 5) and len(body) == 4 + 2 * components, "invalid_header")
        start = self.rest.position
        while True:
            pair = self.rest.take(2)
            self.rest.position -= 1
            if pair[0] == 0xFF and pair[1] not in (0x00, 0xFF, *range(0xD0, 0xD8)):
                break
        self.rest.position -= 1
        self.has_pixels = self.has_pixels or self.rest.position > start


# --- GIF ----------------------------------------------------------------------------------------


def is_gif(data: bytes) -> bool:
    return len(data) >= 13 and 0 not in gif_size(data)


def gif_size(data: bytes) -> Size:
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def walk_gif(data: bytes) -> None:
    rest = Bytes(data)
    rest.take(10)
    screen_flags = rest.big(1)
    rest.take(2)
    skip_colours(rest, screen_flags)
    has_pixels = False
    while (block := rest.take(1)) != b"\x3b":
        if block == b"\x21":
            rest.take(1)
            skip_sub_blocks(rest)
        elif block == b"\x2c":
            descriptor = rest.take(9)
            require(descriptor[4:6] != b"\0\0" and descriptor[6:8] != b"\0\0", "invalid_header")
            skip_colours(rest, descriptor[8])
            require(rest.big(1) in range(1, 12), "invalid_header")
            has_pixels = skip_sub_blocks(rest) > 0 or has_pixels
        else:
            raise DamageError("invalid_structure")
    require(has_pixels, "no_image_data")


def skip_colours(rest: Bytes, flags: int) -> None:
    if flags & 0b1000_0000:
        rest.take(3 * 2 ** ((flags & 0b111) + 1))


def skip_sub_blocks(rest: Bytes) -> int:
    count = 0
    while (length := rest.big(1)) != 0:
        rest.take(length)
        count += 1
    return count


# --- WebP ---------------------------------------------------------------------------------------


def is_webp(data: bytes) -> bool:
    size_agrees = int.from_bytes(data[4:8], "little") + 8 == len(data)
    return size_agrees and len(data) >= 20 and data[12:16] in (b"VP8 ", b"VP8L", b"VP8X")


def webp_size(data: bytes) -> Size | None:
    length = int.from_bytes(data[16:20], "little")
    body = data[20 : 20 + length]
    try:
        return canvas_size(body) if data[12:16] == b"VP8X" else picture_size(data[12:16], body)
    except DamageError:
        return None


def walk_webp(data: bytes) -> None:
    pictures = [follow_webp_chunk(*chunk) for chunk in webp_chunks(data[12:])]
    require(any(pictures), "no_image_data")


def webp_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    rest = Bytes(data)
    while not rest.at_end():
        kind = rest.take(4)
        body = rest.take(rest.little(4))
        rest.take(len(body) % 2)
        yield kind, body


def follow_webp_chunk(kind: bytes, body: bytes) -> bool:
    if kind == b"VP8X":
        canvas_size(body)
    if kind == b"ANMF":
        Bytes(body).take(16)
        pictures = [follow_webp_picture(*chunk) for chunk in webp_chunks(body[16:])]
        return any(pictures)
    return follow_webp_picture(kind, body)


def follow_webp_picture(kind: bytes, body: bytes) -> bool:
    if kind not in (b"VP8 ", b"VP8L"):
        return False
    picture_size(kind, body)
    if kind == b"VP8 ":
        first_partition = int.from_bytes(body[:3], "little") // 32
        Bytes(body).take(10 + first_partition)
    return True


def canvas_size(body: bytes) -> Size:
    header = Bytes(body).take(10)
    return int.from_bytes(header[4:7], "little") + 1, int.from_bytes(header[7:10], "little") + 1


def picture_size(kind: bytes, body: bytes) -> Size:
    if kind == b"VP8L":
        header = Bytes(body).take(5)
        bits = int.from_bytes(header[1:], "little")
        require(header[0] == 0x2F and bits // 2**29 == 0, "invalid_header")
        return bits % 2**14 + 1, bits // 2**14 % 2**14 + 1
    header = Bytes(body).take(10)
    width, height = (int.from_bytes(header[at : at + 2], "little") % 2**14 for at in (6, 8))
    require(header[0] % 2 == 0 and header[3:6] == b"\x9d\x01\x2a", "invalid_header")
    require(width > 0 and height > 0, "invalid_header")
    return width, height


# --- All four -----------------------------------------------------------------------------------


def image_type(data: bytes) -> ImageMimeType | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


IS_IMAGE = {"image/png": is_png, "image/jpeg": is_jpeg, "image/gif": is_gif, "image/webp": is_webp}


def oracle_check(data: bytes) -> ImageCheck:
    mime_type = image_type(data)
    is_image = mime_type is not None and IS_IMAGE[mime_type](data)
    size: Size | None = None
    damage: ImageDamage | None = None
    if is_image:
        jpeg = JpegWalk(data)
        try:
            match mime_type:
                case "image/png":
                    size = png_size(data)
                    walk_png(data)
                case "image/jpeg":
                    jpeg.run()
                case "image/gif":
                    size = gif_size(data)
                    walk_gif(data)
                case _:
                    size = webp_size(data)
                    walk_webp(data)
        except DamageError as error:
            damage = error.damage
        if mime_type == "image/jpeg" and jpeg.size is not None and jpeg.size[1] > 0:
            size = jpeg.size
    width, height = size or (None, None)
    sha256 = hashlib.sha256(data).hexdigest()
    return ImageCheck(sha256, len(data), mime_type, is_image, width, height, damage)
