"""`image_check` against its oracle, over whole images, changed ones and noise behind a signature."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dex_agents.media.image_check import check_image, check_images
from tests.oracles.image_check import oracle_check
from tests.sample_images import IMAGE_BUILDERS, JPEG_SCAN, PNG_HEADER, jpeg_of, jpeg_segment, png_of, webp_of

# Bytes that mean something somewhere: markers, lengths, block codes.
telling = st.one_of(
    st.integers(0, 255), st.sampled_from(b"\x00\x01\x02\x08\x21\x2c\x3b\x7f\x80\xc0\xc4\xd9\xda\xdc\xfe\xff")
)
coded_pixels = st.lists(telling, max_size=300).map(bytes)


def whole_image(kind: str, coded: bytes) -> bytes:
    return IMAGE_BUILDERS[kind](coded)


def png_header(depth: int, colour: int, compression: int, interlace: int) -> bytes:
    return PNG_HEADER[:8] + bytes([depth, colour, compression, 0, interlace])


def whole_png(header: bytes, chunks: list[tuple[bytes, bytes]]) -> bytes:
    return png_of(*chunks, (b"IEND", b""), header=header)


def jpeg_frame(marker: int, lines: bytes) -> bytes:
    return jpeg_segment(marker, b"\x08" + lines + b"\0\x05\x01\x01\x11\0")


def jpeg_scan(coded: bytes) -> bytes:
    return jpeg_segment(0xDA, JPEG_SCAN) + coded


def joined_jpeg(parts: list[bytes]) -> bytes:
    return jpeg_of(*parts)


def gif_frame(size: bytes, flags: int, code_size: int, blocks: bytes) -> bytes:
    return b"\x2c\0\0\0\0" + size + bytes([flags, code_size]) + blocks


def joined_gif(flags: int, parts: list[bytes]) -> bytes:
    return b"GIF87a\x05\0\x07\0" + bytes([flags]) + b"\0\0" + b"".join(parts) + b"\x3b"


def joined_webp(chunks: Sequence[tuple[bytes, bytes]]) -> bytes:
    return webp_of(*chunks)


whole_images = st.builds(whole_image, st.sampled_from(sorted(IMAGE_BUILDERS)), coded_pixels)


@st.composite
def changed_images(draw: st.DrawFn) -> bytes:
    image = bytearray(draw(whole_images))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(image)))
        change = draw(st.sampled_from(("set", "set", "set", "cut", "insert", "remove", "size", "end")))
        match change:
            case "set":
                image[at : at + 1] = bytes([draw(telling)])
            case "cut":
                del image[at:]
            case "insert":
                image[at:at] = bytes(draw(st.lists(telling, min_size=1, max_size=16)))
            case "remove":
                del image[at : at + draw(st.integers(1, 16))]
            case "size":
                image[4:8] = max(len(image) - 8, 0).to_bytes(4, "little")
            case _:
                image += b"\xff\xd9"
    return bytes(image)


chunk_kinds = st.sampled_from((b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tEXt", b"zTXt", b"NEWS", b"ab1d"))
png_headers = st.builds(
    png_header,
    st.sampled_from((1, 2, 3, 4, 8, 16)),
    st.integers(0, 7),
    st.sampled_from((0, 0, 0, 1)),
    st.sampled_from((0, 1, 1, 2)),
)
png_images = st.builds(
    whole_png,
    st.one_of(st.just(PNG_HEADER), png_headers),
    st.lists(st.tuples(chunk_kinds, st.binary(max_size=9)), max_size=6),
)

# Markers with bodies that are often short, and scans that often hold something.
jpeg_parts = st.one_of(
    st.builds(jpeg_segment, st.integers(0xC0, 0xFE), st.binary(max_size=12)),
    st.builds(
        jpeg_frame,
        st.sampled_from((0xC0, 0xC2, 0xCF)),
        st.sampled_from((b"\0\x07", b"\0\0")),
    ),
    st.just(jpeg_segment(0xDC, b"\0\x07")),
    st.builds(jpeg_scan, coded_pixels),
    st.sampled_from((b"\xff", b"\xff\x01", b"\xff\xd0", b"\xff\xd9", b"junk")),
)
jpeg_images = st.lists(jpeg_parts, max_size=8).map(joined_jpeg)

gif_parts = st.one_of(
    st.builds(
        gif_frame,
        st.sampled_from((b"\x05\0\x07\0", b"\x05\0\0\0", b"\0\x01\0\x01")),
        st.sampled_from((0x00, 0x40, 0x80)),
        st.sampled_from((0, 1, 2, 8, 11, 12)),
        st.sampled_from((b"\0", b"\x01a\0", b"\x02a\0\0", b"")),
    ),
    st.sampled_from((b"\x21\xf9\x04\0\0\0\0\0", b"\x21\xfe\0", b"\x3b", b"\0")),
)
gif_images = st.builds(
    joined_gif,
    st.sampled_from((0x00, 0x00, 0x80, 0xFF)),
    st.lists(gif_parts, max_size=6),
)

webp_bodies = st.one_of(
    st.binary(max_size=24),
    st.sampled_from(
        (
            b"\x70\0\0\x9d\x01\x2a\x05\0\x07\0abc",
            b"\x90\0\0\x9d\x01\x2a\x05\0\x07\0abc",
            b"\x70\0\0\x9d\x01\x2a\0\x40\x07\0abc",
            b"\x2f\x04\x80\x01\0",
            b"\x02\0\0\0\x04\0\0\x06\0\0",
            bytes(16) + b"VP8L\x05\0\0\0\x2f\x04\x80\x01\0\0",
        )
    ),
)
webp_kinds = st.sampled_from((b"VP8 ", b"VP8L", b"VP8X", b"ANMF", b"EXIF"))
webp_images = st.lists(st.tuples(webp_kinds, webp_bodies), min_size=1, max_size=5).map(joined_webp)

built_images = st.one_of(png_images, jpeg_images, gif_images, webp_images)
any_bytes = st.one_of(changed_images(), built_images, st.binary(max_size=64))


@given(data=whole_images)
def test_whole_images_are_checked_as_the_oracle_checks_them(data: bytes) -> None:
    check = check_image(data)
    assert check == oracle_check(data)
    assert check.is_image


@given(data=changed_images())
def test_changed_images_are_checked_as_the_oracle_checks_them(data: bytes) -> None:
    assert check_image(data) == oracle_check(data)


@given(data=built_images)
def test_images_of_any_parts_are_checked_as_the_oracle_checks_them(data: bytes) -> None:
    assert check_image(data) == oracle_check(data)


@given(images=st.lists(any_bytes, max_size=5))
def test_several_images_are_checked_as_each_is_alone(images: list[bytes]) -> None:
    assert check_images(images) == [check_image(image) for image in images]
