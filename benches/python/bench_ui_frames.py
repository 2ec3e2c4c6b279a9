"""`make bench-frames`: ui_frames beside f-strings over json.dumps, orjson and msgspec, in one run.

What is asserted before anything is timed: ui_frames writes the bytes of its oracle, joined or not, and every
candidate's stream says the same to a reader. The peers frame one event a part; only ui_frames also joins
deltas and keeps a reader that splits at U+2028 from losing half an event.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson

from benches.measurement import (
    Ratio,
    environment_line,
    geometric_mean,
    measure_rounds,
    print_table,
    speed_ratio,
)
from benches.native_rows import NativeRow, Target
from benches.workloads.ui_parts import UI_BATCHES
from dex_agents import _native
from dex_agents.ui_stream import UIFrameFeed, encode_ui_frames
from tests.oracles.ui_frames import frames

__all__ = ["FRAMERS", "frame_samples", "native_rows", "viewer_ratio"]

Batch = list[dict[str, Any]]
Samples = dict[str, list[float]]

_msgspec_encode = msgspec.json.Encoder().encode


def _json_dumps(batch: Batch) -> list[bytes]:
    return [f"data: {json.dumps(part)}\n\n".encode() for part in batch]


def _orjson(batch: Batch) -> list[bytes]:
    return [b"data: %b\n\n" % orjson.dumps(part) for part in batch]


def _orjson_batch(batch: Batch) -> bytes:
    return b"data: " + b"\n\ndata: ".join([orjson.dumps(part) for part in batch]) + b"\n\n"


def _msgspec(batch: Batch) -> list[bytes]:
    return [b"data: %b\n\n" % _msgspec_encode(part) for part in batch]


def _one_by_one(batch: Batch) -> list[bytes]:
    return [encode_ui_frames([part]) for part in batch]


def _batch(batch: Batch) -> bytes:
    return encode_ui_frames(batch, max_joined_bytes=0)


FRAMERS: dict[str, Callable[[Batch], bytes | list[bytes]]] = {
    "json.dumps": _json_dumps,
    "orjson": _orjson,
    "orjson, joined": _orjson_batch,
    "msgspec": _msgspec,
    "ui_frames, one call a part": _one_by_one,
    "ui_frames, one call a batch": _batch,
    "ui_frames, deltas joined": encode_ui_frames,
}
"""Each way to frame a batch; the first is what others are compared with."""


def frame_samples(rounds: int, batches: Mapping[str, Batch] = UI_BATCHES) -> dict[str, Samples]:
    """Time every framer, after their streams were found equal.

    Args:
        rounds: Samples of each candidate.
        batches: What to frame.

    Returns:
        Seconds a batch by framer, by batch.
    """
    results: dict[str, Samples] = {}
    for name, batch in batches.items():
        _require_equal(name, batch)
        results[name] = measure_rounds(
            {framer: lambda frame=frame, batch=batch: frame(batch) for framer, frame in FRAMERS.items()},
            rounds=rounds,
        )
    return results


def _ratios(samples: Samples) -> dict[str, Ratio]:
    """Compare every framer with the first."""
    base, *others = FRAMERS
    return {framer: speed_ratio(samples[base], samples[framer]) for framer in others}


def viewer_ratio(rounds: int, viewers: int = 100) -> Ratio:
    """Measure how many times as fast a stream is served to viewers who share its bytes as to viewers for whom
    it is encoded one by one; handing the batches out is in both.
    """
    batch = UI_BATCHES["1,000 text deltas"]

    async def read(feed: UIFrameFeed) -> int:
        return sum([len(frames) async for frames in feed.batches()])

    async def serve(feeds: int, viewers_each: int) -> int:
        served = 0
        for _ in range(feeds):
            feed = UIFrameFeed()
            for start in range(0, len(batch), 50):
                feed.add(batch[start : start + 50], now=0.0)
                feed.flush()
            feed.close()
            for _ in range(viewers_each):
                served += await read(feed)
        return served

    with asyncio.Runner() as runner:
        samples = measure_rounds(
            {
                "apart": lambda: runner.run(serve(viewers, 1)),
                "shared": lambda: runner.run(serve(1, viewers)),
            },
            rounds=rounds,
        )
    return speed_ratio(samples["apart"], samples["shared"])


def native_rows(rounds: int) -> list[NativeRow]:
    """Return what `make bench-native` shows of ui_frames: the batches of small deltas, and sharing."""
    deltas = "1,000 text deltas"
    ratios = _ratios(frame_samples(rounds, {deltas: UI_BATCHES[deltas]})[deltas])
    targets = {
        "ui_frames, one call a part": Target(6, 10, "the call from Python, its list and its bytes"),
        "ui_frames, one call a batch": Target(9, 15, "reading the three members of each part"),
    }
    rows = [
        NativeRow(
            "ui_frames",
            f"events/s of {framer} / json.dumps",
            str(ratio),
            ratio.median,
            targets.get(framer),
        )
        for framer, ratio in ratios.items()
    ]
    shared = NativeRow("ui_frames", "100 viewers who share / each its own", str(viewer_ratio(rounds)))
    return [*rows, shared]


def _require_equal(name: str, batch: Batch) -> None:
    for bound in (0, 32 * 1024):
        if encode_ui_frames(batch, max_joined_bytes=bound) != frames(batch, max_joined_bytes=bound):
            sys.exit(f"ui_frames differs from its oracle on {name!r}")
    for framer, frame in FRAMERS.items():
        stream = frame(batch)
        whole = stream if isinstance(stream, bytes) else b"".join(stream)
        parts = [json.loads(event.removeprefix(b"data: ")) for event in whole.split(b"\n\n")[:-1]]
        if framer != "ui_frames, deltas joined" and parts != batch:
            sys.exit(f"{framer} loses something of {name!r}")


def main() -> None:
    """Print one table over all batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="samples of each candidate")
    rounds: int = parser.parse_args().rounds
    if _native.build_profile != "release":
        sys.exit("bench_ui_frames: the extension is a development build; run `make bench-frames`")
    print(f"{environment_line()}; dex_agents._native {_native.__version__} {_native.build_profile}")
    print(f"orjson {orjson.__version__}, msgspec {msgspec.__version__}")
    print(f"\nTimes as fast as f-string and json.dumps, median (lowest..highest) of {rounds} rounds")
    results = frame_samples(rounds)
    framers = list(FRAMERS)[1:]
    rows: list[list[str]] = []
    columns: list[dict[str, Ratio]] = []
    for name, samples in results.items():
        ratios = _ratios(samples)
        columns.append(ratios)
        a_part = min(samples["ui_frames, one call a batch"]) / len(UI_BATCHES[name])
        rows.append([name, *map(str, ratios.values()), f"{a_part * 1e9:.0f}"])
    means = (geometric_mean([ratios[framer] for ratios in columns]) for framer in framers)
    rows.append(["geometric mean", *(f"{mean:.2f}x" for mean in means), ""])
    print_table(["batch", *framers, "ns a part, one call a batch"], rows)
    print("\nViewers who share the bytes of a batch, beside viewers for whom each batch is encoded")
    print(f"100 of them: {viewer_ratio(rounds)}")


if __name__ == "__main__":
    main()
