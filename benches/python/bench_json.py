"""`make bench-json`: json_text beside json.dumps, orjson and msgspec, in one run.

Only json_text writes the text of `json.dumps`, which is asserted before anything is timed. The other two
write JSON of their own (raw UTF-8, no blanks, `null` for NaN) and show what the machine allows.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
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
from benches.native_rows import NativeRow
from benches.workloads.json_values import JSON_VALUES
from dex_agents import _native
from dex_agents.codecs.json_text import encode_compact_sorted_json_text, encode_json_text

Encoder = Callable[[Any], object]

_msgspec_encode = msgspec.json.Encoder().encode
_msgspec_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def _dumps_unicode(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _encode_unicode(value: Any) -> str:
    return encode_json_text(value, ensure_ascii=False)


def _dumps_compact_sorted(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _orjson_sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


_VARIANTS: dict[str, dict[str, Encoder]] = {
    "default": {
        "json.dumps": json.dumps,
        "json_text": encode_json_text,
        "orjson": orjson.dumps,
        "msgspec": _msgspec_encode,
    },
    "ensure_ascii=False": {
        "json.dumps": _dumps_unicode,
        "json_text": _encode_unicode,
        "orjson": orjson.dumps,
        "msgspec": _msgspec_encode,
    },
    "sorted keys, compact": {
        "json.dumps": _dumps_compact_sorted,
        "json_text": encode_compact_sorted_json_text,
        "orjson": _orjson_sorted,
        "msgspec": _msgspec_encode_sorted,
    },
}


Samples = dict[str, list[float]]


def variant_samples(title: str, rounds: int) -> dict[str, Samples]:
    """Time one spelling, after json_text was found equal to json.dumps.

    Args:
        title: The spelling, a key of the variants.
        rounds: Samples of each candidate.

    Returns:
        Seconds a call by candidate, by value.
    """
    encoders = _VARIANTS[title]
    results: dict[str, Samples] = {}
    for workload, value in JSON_VALUES.items():
        if encoders["json_text"](value) != encoders["json.dumps"](value):
            sys.exit(f"json_text differs from json.dumps on {workload!r} ({title})")
        results[workload] = measure_rounds(
            {name: lambda encode=encode, value=value: encode(value) for name, encode in encoders.items()},
            rounds=rounds,
        )
    return results


def _ratios(samples: Samples) -> dict[str, Ratio]:
    """Compare every candidate with json.dumps, and json_text with orjson."""
    peers = list(samples)[1:]
    ratios = {peer: speed_ratio(samples["json.dumps"], samples[peer]) for peer in peers}
    return {**ratios, "json_text/orjson": speed_ratio(samples["orjson"], samples["json_text"])}


def _means(ratios: Sequence[dict[str, Ratio]]) -> dict[str, str]:
    return {name: f"{geometric_mean([each[name] for each in ratios]):.2f}x" for name in ratios[0]}


def native_rows(rounds: int) -> list[NativeRow]:
    """Return what `make bench-native` shows of json_text: means over the seven values."""
    rows: list[NativeRow] = []
    for title in _VARIANTS:
        means = _means([_ratios(samples) for samples in variant_samples(title, rounds).values()])
        for name, mean in means.items():
            compared = name if "/" in name else f"{name} / json.dumps"
            bounds = ("4x", "8x") if (title, name) == ("default", "json_text") else ()
            rows.append(NativeRow("json_text", f"{title}: {compared}", mean, *bounds))
    return rows


def _print_variant(title: str, rounds: int) -> None:
    results = variant_samples(title, rounds)
    ratios = {workload: _ratios(samples) for workload, samples in results.items()}
    rows = [
        [workload, *map(str, each.values()), f"{min(results[workload]['json_text']) * 1e6:.2f}"]
        for workload, each in ratios.items()
    ]
    means = _means(list(ratios.values()))
    rows.append(["geometric mean", *means.values(), ""])
    print(f"\n{title}: times as fast as json.dumps, median (lowest..highest) of {rounds} rounds")
    print_table(["value", *means, "json_text us"], rows)


def main() -> None:
    """Print one table for each spelling the product uses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="samples of each candidate")
    rounds: int = parser.parse_args().rounds
    if _native.build_profile != "release":
        sys.exit("bench_json: the extension is a development build; run `make bench-json`")
    print(f"{environment_line()}; dex_agents._native {_native.__version__} {_native.build_profile}")
    print(f"orjson {orjson.__version__}, msgspec {msgspec.__version__}")
    for title in _VARIANTS:
        _print_variant(title, rounds)


if __name__ == "__main__":
    main()
