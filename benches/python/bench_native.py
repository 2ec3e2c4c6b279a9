"""`make bench-native`: the four native capabilities, import time and wheel size, measured in one run.

Each capability's own bench says more; this is its summary. Every ratio compares candidates of the same
rounds, after their outputs were found equal. A ratio is judged by its median; where a goal is missed, the
verdict names what bounds it.
"""

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches.measurement import environment_line, print_table
from benches.native_rows import NativeRow
from dex_agents import _native

_ROOT = Path(__file__).parents[2]

_BENCHES = {
    "json_text": "bench_json",
    "image_check": "bench_image_check",
    "token_estimate": "bench_token_estimate",
    "ui_frames": "bench_ui_frames",
}


def _capability_rows(rounds: int) -> list[NativeRow]:
    rows: list[NativeRow] = []
    for capability, module_name in _BENCHES.items():
        print(f"measuring {capability}", file=sys.stderr)
        name = f"benches.python.{module_name}"
        try:
            module: Any = importlib.import_module(name)
        except ModuleNotFoundError as error:
            rows.append(NativeRow(capability, "not measured", f"no module named {error.name}"))
            continue
        if not hasattr(module, "native_rows"):
            rows.append(NativeRow(capability, "not measured", f"{name} has no native_rows"))
            continue
        rows += module.native_rows(rounds)
    return rows


def _error_rows(node_modules: Path) -> list[NativeRow]:
    print("measuring the errors of token_estimate", file=sys.stderr)
    if not (node_modules / "typescript").is_dir():
        found = "not measured: npm is needed for typescript 5, whose messages are among the texts"
        return [NativeRow("token_estimate", "errors on text that was not fitted", found)]
    try:
        module: Any = importlib.import_module("benches.fit_token_weights")
    except ModuleNotFoundError as error:
        return [NativeRow("token_estimate", "errors", f"not measured: no module named {error.name}")]
    return module.shipped_rows(node_modules)


_ALL_NAMES = "from dex_agents import AgentWorker"
"""The first public name loads them all."""


def _import_row(rounds: int) -> NativeRow:
    """Measure CPU seconds of a fresh interpreter that imports a package, beside one that imports nothing."""
    seconds = {statement: [] for statement in ("pass", "import dex", _ALL_NAMES)}
    for _ in range(rounds):
        for statement, samples in seconds.items():
            samples.append(_cpu_seconds(statement))
    medians = {statement: statistics.median(samples) for statement, samples in seconds.items()}
    ours, sdk = (medians[name] - medians["pass"] for name in (_ALL_NAMES, "import dex"))
    result = f"{ours * 1e3:.0f} ms CPU, of which the Dex SDK {sdk * 1e3:.0f} ms"
    return NativeRow("package", "import of all public names", result)


def _cpu_seconds(statement: str) -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _wheel_rows() -> list[NativeRow]:
    wheels = sorted((_ROOT / "dist").glob("*.whl"))
    if not wheels:
        return [NativeRow("package", "wheel", "not measured: dist/ has no wheel; run `make wheel`")]
    wheel = wheels[-1]
    with zipfile.ZipFile(wheel) as archive:
        extension = max(
            (entry for entry in archive.infolist() if "_native" in entry.filename),
            key=lambda entry: entry.file_size,
        )
    result = (
        f"{wheel.stat().st_size / 1e3:.0f} kB; the extension is {extension.file_size / 1e3:.0f} kB, "
        f"{extension.compress_size / 1e3:.0f} kB packed"
    )
    return [NativeRow("package", "wheel", result)]


def _print(rows: Sequence[NativeRow]) -> None:
    head = ["capability", "measure", "result", "floor", "goal", "verdict"]
    print_table(head, [row.cells() for row in rows])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="samples of each candidate")
    parser.add_argument("--node-modules", type=Path, default=Path("none"), help="a folder with typescript 5")
    options = parser.parse_args()
    rounds: int = options.rounds
    if _native.build_profile != "release":
        sys.exit("bench_native: the extension is a development build; run `make bench-native`")
    print(f"{environment_line()}; dex_agents._native {_native.__version__} {_native.build_profile}\n")
    errors = _error_rows(options.node_modules)
    _print([*_capability_rows(rounds), *errors, _import_row(rounds), *_wheel_rows()])


if __name__ == "__main__":
    main()
