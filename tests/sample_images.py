"""Small whole images of 5 times 7 pixels, put together part by part."""

from __future__ import annotations

import zlib

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_HEADER = b"\0\0\0\x05\0\0\0\x07\x08\x02\0\0\0"
JPEG_FRAME = b"\x08\0\x07\0\x05\x01\x01\x11\0"
JPEG_SCAN = b"\x01\x01\0\0\x3f\0"
WEBP_CANVAS = b"\x02\0\0\0\x04\0\0\x06\0\0"


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")


def png_of(*chunks: tuple[bytes, bytes], header: bytes = PNG_HEADER) -> bytes:
    return PNG_SIGNATURE + b"".join(png_chunk(*chunk) for chunk in ((b"IHDR", header), *chunks))


def png_image(coded: bytes = b"pixels") -> bytes:
    return png_of((b"tEXt", b"Title\0Desk"), (b"IDAT", coded), (b"IDAT", coded), (b"IEND", b""))


def jpeg_segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2, "big") + body


def jpeg_of(*parts: bytes) -> bytes:
    return b"\xff\xd8" + b"".join(parts) + b"\xff\xd9"


def jpeg_image(coded: bytes = b"pixels") -> bytes:
    return jpeg_of(
        jpeg_segment(0xE0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"),
        jpeg_segment(0xC0, JPEG_FRAME),
        jpeg_segment(0xDA, JPEG_SCAN),
        coded.replace(b"\xff", b"\xff\0"),
        b"\xff\xd0!",
    )


def gif_image(coded: bytes = b"pixels") -> bytes:
    blocks = [coded[at : at + 255] for at in range(0, len(coded), 255)]
    return (
        b"GIF89a\x05\0\x07\0\x80\0\0RGBrgb"
        b"\x21\xf9\x04\0\0\0\0\0"
        b"\x2c\0\0\0\0\x05\0\x07\0\0\x02"
        + b"".join(bytes([len(block)]) + block for block in blocks)
        + b"\0\x3b"
    )


def webp_chunk(kind: bytes, body: bytes) -> bytes:
    return kind + len(body).to_bytes(4, "little") + body + bytes(len(body) % 2)


def webp_of(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"WEBP" + b"".join(webp_chunk(*chunk) for chunk in chunks)
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def lossy_picture(coded: bytes = b"pixels") -> bytes:
    return b"\x70\0\0\x9d\x01\x2a\x05\0\x07\0abc" + coded


def lossless_picture(coded: bytes = b"pixels") -> bytes:
    return b"\x2f\x04\x80\x01\0" + coded


def lossy_webp_image(coded: bytes = b"pixels") -> bytes:
    return webp_of((b"VP8 ", lossy_picture(coded)))


def lossless_webp_image(coded: bytes = b"pixels") -> bytes:
    return webp_of((b"VP8L", lossless_picture(coded)))


def animated_webp_image(coded: bytes = b"pixels") -> bytes:
    frame = bytes(16) + webp_chunk(b"ALPH", b"odd") + webp_chunk(b"VP8 ", lossy_picture(coded))
    return webp_of((b"VP8X", WEBP_CANVAS), (b"ANIM", bytes(6)), (b"ANMF", frame))


IMAGE_BUILDERS = {
    "png": png_image,
    "jpeg": jpeg_image,
    "gif": gif_image,
    "lossy webp": lossy_webp_image,
    "lossless webp": lossless_webp_image,
    "animated webp": animated_webp_image,
}
"""One builder of each kind; what it is given becomes the coded pixels, which nobody decodes."""
