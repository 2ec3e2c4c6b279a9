"""`make bench-images`: image_check beside hashlib, plain Python and Pillow, in one run.

What is asserted before anything is timed: image_check finds what its oracle finds, and Pillow the same type
and size. The candidates do not do the same: `headers` is the least that a store must do, SHA-256 and the
accepting rules in plain Python; image_check also walks the whole structure, as the oracle and Pillow's
`verify` do.
"""

# Pillow comes with the bench tools only.
# pyright: reportMissingImports=false

import argparse
import asyncio
import hashlib
import io
import os
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from PIL import Image

from benches.measurement import Ratio, environment_line, measure_rounds, print_table, speed_ratio
from benches.native_rows import NativeRow, Target
from benches.workloads.images import LARGEST_IMAGE_BYTES, build_images, build_noise
from dex_agents import _native
from dex_agents.media.image_check import check_image, check_images
from dex_agents.media.local_directory import LocalDirectoryMediaStore
from tests.oracles.image_check import oracle_check
from tests.sample_images import png_image

__all__ = ["native_rows"]

Check = Callable[[bytes], object]

_IMAGES_AT_ONCE = 8


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _headers(data: bytes) -> tuple[str, str | None]:
    """Hash, and apply the accepting rules."""
    return hashlib.sha256(data).hexdigest(), _type_by_headers(data)


def _type_by_headers(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 33:
        length, kind, width, height = struct.unpack_from(">I4sII", data, 8)
        return "image/png" if (length, kind) == (13, b"IHDR") and width and height else None
    if data.startswith(b"\xff\xd8\xff") and len(data) >= 6:
        return "image/jpeg" if data[3] not in (0, 255) and data.endswith(b"\xff\xd9") else None
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 13:
        width, height = struct.unpack_from("<HH", data, 6)
        return "image/gif" if width and height else None
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) >= 20:
        size_agrees = struct.unpack_from("<I", data, 4)[0] + 8 == len(data)
        return "image/webp" if size_agrees and data[12:16] in (b"VP8 ", b"VP8L", b"VP8X") else None
    return None


def _pillow_verify(data: bytes) -> tuple[str | None, tuple[int, int]]:
    with Image.open(io.BytesIO(data)) as image:
        size = image.size
        image.verify()
        return image.get_format_mimetype(), size


def _pillow_and_hash(data: bytes) -> tuple[str, tuple[str | None, tuple[int, int]]]:
    return hashlib.sha256(data).hexdigest(), _pillow_verify(data)


_CANDIDATES: dict[str, Check] = {
    "image_check": check_image,
    "SHA-256": _sha256,
    "SHA-256 + headers": _headers,
    "SHA-256 + plain walk": oracle_check,
    "SHA-256 + Pillow verify": _pillow_and_hash,
    "Pillow verify": _pillow_verify,
}


def _require_equal(name: str, data: bytes) -> None:
    check = check_image(data)
    if check != oracle_check(data) or check.damaged:
        sys.exit(f"image_check differs from its oracle on {name}, or finds it damaged")
    if _headers(data) != (check.sha256, check.mime_type):
        sys.exit(f"the plain headers differ from image_check on {name}")
    if _pillow_verify(data) != (check.mime_type, (check.width, check.height)):
        sys.exit(f"Pillow differs from image_check on {name}")


def _image_ratios(rounds: int, images: Mapping[str, bytes]) -> dict[str, dict[str, Ratio]]:
    """Compare image_check with every candidate, by image."""
    results: dict[str, dict[str, Ratio]] = {}
    for name, data in images.items():
        _require_equal(name, data)
        samples = measure_rounds(
            {peer: lambda check=check, data=data: check(data) for peer, check in _CANDIDATES.items()},
            rounds=rounds,
        )
        peers = list(_CANDIDATES)[1:]
        results[name] = {peer: speed_ratio(samples[peer], samples["image_check"]) for peer in peers}
    return results


def _walk_ratio(rounds: int, data: bytes) -> str:
    """Compare Pillow's `verify` with the strict walk alone: what a check of the image takes more than one
    of as many bytes that are none.
    """
    noise = build_noise(len(data))
    samples = measure_rounds(
        {
            "image": lambda: check_image(data),
            "noise": lambda: check_image(noise),
            "Pillow verify": lambda: _pillow_verify(data),
        },
        rounds=rounds,
    )
    walk = statistics.median(
        image - noise for image, noise in zip(samples["image"], samples["noise"], strict=True)
    )
    # Less than this is lost in the hash, which takes that much more or less by itself.
    least = 0.01 * statistics.median(samples["noise"])
    ratio = statistics.median(samples["Pillow verify"]) / max(walk, least)
    return f"{ratio:.1f}x" if walk > least else f"over {ratio:.1f}x"


def _accepted_part(data: bytes) -> bytes:
    """Cut an image down to what the accepting rules look at: its header, and what they read of its end."""
    match _type_by_headers(data):
        case "image/jpeg":
            return data[:62] + b"\xff\xd9"
        case "image/webp":
            return data[:4] + (56).to_bytes(4, "little") + data[8:64]
        case _:
            return data[:64]


def _structure_ratio(rounds: int, data: bytes) -> Ratio:
    """Compare Pillow's `verify` with the structure check: type, size and accepting rules.

    It reads a header and at most the last two bytes, whatever the image, so it is timed on what it reads. The
    call, the hash of 64 bytes and a walk that ends at the cut are in it.
    """
    part = _accepted_part(data)
    whole, cut = check_image(data), check_image(part)
    if not cut.is_image or cut.mime_type != whole.mime_type or not cut.damaged:
        sys.exit("the accepting rules look at more of an image than what is timed")
    samples = measure_rounds(
        {"structure": lambda: check_image(part), "Pillow verify": lambda: _pillow_verify(data)}, rounds=rounds
    )
    return speed_ratio(samples["Pillow verify"], samples["structure"])


def _hash_ratio(rounds: int, length: int) -> tuple[Ratio, float]:
    """Compare with hashlib on bytes that are no image, and return megabytes a second too."""
    data = build_noise(length)
    if check_image(data).sha256 != _sha256(data):
        sys.exit("image_check and hashlib differ")
    samples = measure_rounds(
        {"hashlib": lambda: _sha256(data), "image_check": lambda: check_image(data)}, rounds=rounds
    )
    return speed_ratio(samples["hashlib"], samples["image_check"]), length / min(samples["image_check"]) / 1e6


def _threads_ratio() -> float:
    """Compare several images at once with one by one, by the clock on the wall: the fastest call of each.

    A neighbour that takes a processor makes any one call slow, and none faster than the threads can be.
    """
    images = [build_noise(400_000, seed) for seed in range(_IMAGES_AT_ONCE)]
    samples = measure_rounds(
        {
            "one by one": lambda: [check_image(image) for image in images],
            "at once": lambda: check_images(images),
        },
        rounds=200,
        seconds_a_sample=0.002,
        clock=time.perf_counter,
    )
    return min(samples["one by one"]) / min(samples["at once"])


def _put_ratio(rounds: int) -> Ratio:
    """Compare a put of the largest image with plain Python that promises as much, by the clock on the wall.

    Either syncs the file, the directory it lies in and the two above, so that disk and hash dominate.
    """
    with tempfile.TemporaryDirectory() as directory, asyncio.Runner() as runner:
        root = Path(directory)
        store = LocalDirectoryMediaStore(root / "store")
        plain = root / "plain" / "sha256"
        plain.mkdir(parents=True)
        data = png_image(build_noise((LARGEST_IMAGE_BYTES - 200) // 2))

        def put_plainly() -> None:
            path = plain / hashlib.sha256(data).hexdigest()
            with (plain / "temporary").open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            (plain / "temporary").rename(path)
            for synced in (plain, plain.parent, root):
                descriptor = os.open(synced, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)
            path.unlink()

        def put_in_store() -> None:
            reference = runner.run(store.put_image(data))
            (root / "store" / "sha256" / reference.sha256).unlink()

        samples = measure_rounds(
            {"plain": put_plainly, "store": put_in_store}, rounds=rounds, clock=time.perf_counter
        )
    return speed_ratio(samples["plain"], samples["store"])


def native_rows(rounds: int) -> list[NativeRow]:
    """Return what `make bench-native` shows of image_check."""
    hash_ratio, _ = _hash_ratio(rounds, LARGEST_IMAGE_BYTES)
    rows = [
        NativeRow(
            "image_check",
            "SHA-256 of 3.75 MB / hashlib",
            str(hash_ratio),
            round(hash_ratio.median, 2),
            Target(0.95, 1.0, "the SHA instructions, which both use"),
        )
    ]
    images = build_images()
    for image, ratios in _image_ratios(rounds, images).items():
        structure = _structure_ratio(rounds, images[image])
        walk = _walk_ratio(rounds, images[image])
        target = Target(30, 50, "verify of this format reads a header only; most of ours is the call")
        rows += [
            NativeRow(
                "image_check",
                f"{image}, structure check / Pillow verify",
                str(structure),
                structure.median,
                target,
            ),
            NativeRow("image_check", f"{image}, strict walk alone / Pillow verify", walk),
        ]
        rows += [
            NativeRow("image_check", f"{image}, hash and walk / {peer}", str(ratios[peer]))
            for peer in ("SHA-256 + headers", "SHA-256 + plain walk", "Pillow verify")
        ]
    threads, put = _threads_ratio(), _put_ratio(rounds)
    return [
        *rows,
        NativeRow(
            "image_check",
            f"{_IMAGES_AT_ONCE} of 400 KB at once / one by one, fastest calls, {os.cpu_count()} CPUs",
            f"{threads:.2f}x, load {os.getloadavg()[0]:.1f}",
        ),
        NativeRow(
            "image_check",
            "put of 3.75 MB / plain hash, write, fsyncs",
            str(put),
            put.median,
            Target(0.9, 1.0, "the disk, whose fsyncs vary more than the rest takes"),
        ),
    ]


def main() -> None:
    """Print a table of hashes, one of images, and two lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="samples of each candidate")
    rounds: int = parser.parse_args().rounds
    if _native.build_profile != "release":
        sys.exit("bench_image_check: the extension is a development build; run `make bench-images`")
    print(f"{environment_line()}; dex_agents._native {_native.__version__} {_native.build_profile}")
    print(f"\nTimes as fast as others, median (lowest..highest) of {rounds} rounds\n")
    hashes: list[list[str]] = []
    for name, length in (("1 KiB", 1024), ("64 KiB", 65_536), ("3.75 MB", LARGEST_IMAGE_BYTES)):
        ratio, speed = _hash_ratio(rounds, length)
        hashes.append([name, str(ratio), f"{speed:.0f}"])
    print_table(["bytes that are no image", "hashlib", "MB/s"], hashes)
    print()
    images = build_images()
    peers = list(_CANDIDATES)[1:]
    rows = [
        [name, *(str(ratios[peer]) for peer in peers), _walk_ratio(rounds, images[name])]
        for name, ratios in _image_ratios(rounds, images).items()
    ]
    print_table(["image", *peers, "Pillow verify beside the walk alone"], rows)
    print(f"\n{_IMAGES_AT_ONCE} of 400 KB at once, beside one by one, fastest calls: {_threads_ratio():.2f}x")
    print(f"put of 3.75 MB, beside hash, write and the same fsyncs in plain Python: {_put_ratio(rounds)}")


if __name__ == "__main__":
    main()
