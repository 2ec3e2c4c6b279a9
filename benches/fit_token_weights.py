"""`make token-weights`: fit the weights of `token_estimate` to real tokenizers, and judge them on other text.

The tokenizers and the texts come from packages: litellm ships the rank files of o200k and cl100k, the
tokenizer that Anthropic published in 2023 and DeepSeek's; `benches/workloads/token_texts.py` says where the
texts are from. One half of each kind is fitted, the other half judged; only the judged half is in the tables.
"""

# numpy is installed for `make token-weights` alone.
# pyright: reportMissingImports=false

import argparse
import json
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benches.measurement import print_table
from benches.native_rows import NativeRow, Target
from benches.reference_tokenizers import Tokenizer, load_tokenizers
from benches.workloads.token_texts import agent_texts, rare_script_texts
from dex_agents._native import TOKEN_FEATURE_NAMES, TokenWeights

_WEIGHTS_PATH: Final = (
    Path(__file__).parents[1] / "python" / "dex_agents" / "builtin_loop" / "token_weights.json"
)
_ABOUT: Final = (
    "Thousandths of a token for each feature that dex_agents._native counts, by family of tokenizers. "
    "Written by benches/fit_token_weights.py, which also prints how far off they are."
)

# Whatever the fit says, no text is free: a run of one character without end must not look small.
_FLOORS: Final = {
    "lowercase": 0.08,
    "rare_lowercase": 0.2,
    "uppercase": 0.2,
    "digits": 0.334,
    "blanks": 0.01,
    "newlines": 0.05,
    "punctuation": 0.1,
    "controls": 1.0,
    "latin": 0.25,
    "latin_extended": 0.25,
    "vietnamese": 0.25,
    "han": 0.3,
    "kana": 0.3,
    "hangul": 0.3,
    "wide_punctuation": 0.3,
    "symbols": 0.3,
    "emoji": 1.0,
}
_SCRIPT_FLOOR: Final = 0.1
_FEATURES: Final = len(TOKEN_FEATURE_NAMES)
_OTHER: Final = TOKEN_FEATURE_NAMES.index("other")
_FIRST_EVENT: Final = TOKEN_FEATURE_NAMES.index("word_starts")

_ERROR_TARGETS: Final = (
    (
        "mean error of a chunk, per cent",
        Target(
            9, 6, "words that only a vocabulary knows; these are 51 kinds of text, not the 22 of the goal"
        ),
    ),
    (
        "lowest estimate of a chunk, per cent",
        Target(-35, -25, "single chunks of Italian, Dutch and French, whose words split finer than most"),
    ),
    ("mean error of an anchored session, per cent", Target(1, 0.4, "the mean error of a chunk")),
    ("99th percentile of it, per cent", Target(4, 1.5, "the mean error of a chunk")),
)

Chunks = Mapping[str, Sequence[str]]
Kinds = Sequence[Sequence[float]]


def _counts(text: str) -> list[int]:
    rows = (tuple(int(row == column) for column in range(_FEATURES)) for row in range(_FEATURES))
    return [TokenWeights(row).estimate_millitokens((text,)) for row in rows]


def _halves(kinds: Chunks) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    fitted, judged = {}, {}
    for kind, chunks in kinds.items():
        mixed = random.Random(kind).sample(chunks, len(chunks))
        fitted[kind], judged[kind] = mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]
    return fitted, judged


def _floor(name: str, index: int) -> float:
    return 0.0 if index >= _FIRST_EVENT else _FLOORS.get(name, _SCRIPT_FLOOR)


def _fit(texts: Chunks, rare: Chunks, tokens: Tokenizer) -> list[int]:
    """Fit one row: least squares of the relative error, every kind as important as any other.

    No weight falls below its floor, so text never makes an estimate smaller. The weight of scripts without
    one of their own is not fitted: it is what the dearest of them costs, and one token at least.
    """
    floors = np.array([_floor(name, index) for index, name in enumerate(TOKEN_FEATURE_NAMES)])
    floors[_OTHER] = max(1.0, *(_tokens_a_rare_character(chunks, tokens) for chunks in rare.values()))
    counts = np.array([_counts(text) for chunks in texts.values() for text in chunks], float)
    truth = np.array([tokens(text) for chunks in texts.values() for text in chunks], float)
    importance = np.concatenate([np.full(len(chunks), len(chunks) ** -0.5) for chunks in texts.values()])
    relative = counts * (importance / truth)[:, None]
    rest = importance - relative @ floors
    free = [index for index in range(_FEATURES) if index != _OTHER]
    while True:
        # A feature that hardly occurs gets no wild weight.
        ridge = 1e-4 * np.eye(len(free))
        above, *_ = np.linalg.lstsq(
            np.vstack([relative[:, free], ridge]), np.append(rest, np.zeros(len(free)))
        )
        if (above >= 0).all():
            break
        del free[int(np.argmin(above))]
    weights = floors.copy()
    weights[free] += above
    return [round(1_000 * weight) for weight in weights.tolist()]


def _tokens_a_rare_character(chunks: Sequence[str], tokens: Tokenizer) -> float:
    return sum(map(tokens, chunks)) / sum(_counts(text)[_OTHER] for text in chunks)


def _errors(chunks: Sequence[str], weights: Sequence[int], tokens: Tokenizer) -> list[float]:
    row = tuple(weights)
    return [TokenWeights(row).estimate_millitokens((text,)) / 1_000 / tokens(text) - 1 for text in chunks]


def _percent(value: float) -> str:
    return f"{100 * value:+.0f}%"


def _print_kinds(judged: Chunks, rows: Mapping[str, list[int]], tokenizers: Mapping[str, Tokenizer]) -> None:
    errors = {
        family: {kind: _errors(chunks, rows[family], tokens) for kind, chunks in judged.items()}
        for family, tokens in tokenizers.items()
    }
    quarter = {
        kind: [len(text) / 4 / tokenizers["o200k"](text) - 1 for text in chunks]
        for kind, chunks in judged.items()
    }
    columns = {"chars/4 for o200k": quarter, **errors}
    table = [
        [kind, *(_percent(statistics.mean(column[kind])) for column in columns.values())] for kind in judged
    ]
    table += [
        ["mean of the absolute error, all kinds alike", *_each(_mean_error, columns, "{:.1f}%")],
        ["95 of 100 chunks are within", *_each(_within, columns, "{:.0f}%")],
        ["lowest estimate of one chunk", *_each(_lowest, columns, "{:+.0f}%")],
    ]
    print("\nSigned mean error on chunks that were not fitted")
    print_table(["text", *columns], table)


def _each(
    summary: Callable[[Kinds], float], columns: Mapping[str, Mapping[str, Sequence[float]]], shown: str
) -> list[str]:
    return [shown.format(100 * summary(list(column.values()))) for column in columns.values()]


def _mean_error(kinds: Kinds) -> float:
    return statistics.mean(statistics.mean(map(abs, errors)) for errors in kinds)


def _within(kinds: Kinds) -> float:
    return statistics.quantiles([abs(error) for errors in kinds for error in errors], n=20)[-1]


def _lowest(kinds: Kinds) -> float:
    return min(error for errors in kinds for error in errors)


def _print_unknown(
    judged: Chunks, rare: Chunks, rows: Mapping[str, list[int]], tokenizers: Mapping[str, Tokenizer]
) -> None:
    table = [
        [
            language,
            *(
                _percent(statistics.mean(_errors(chunks, rows[name], tokenizers[name])))
                for name in tokenizers
            ),
        ]
        for language, chunks in rare.items()
    ]
    print("\nScripts without a weight of their own: signed mean error, never far below zero")
    print_table(["script", *tokenizers], table)
    table = []
    for name, tokens in tokenizers.items():
        errors = [_errors(chunks, rows["default"], tokens) for chunks in judged.values()]
        signed = _percent(statistics.mean(map(statistics.mean, errors)))
        table.append([name, signed, _percent(_lowest(errors))])
    print("\nThe default row, for a model whose tokenizer is not known")
    print_table(["tokenizer", "signed mean error", "lowest estimate of one chunk"], table)


def _print_sessions(
    judged: Chunks, rows: Mapping[str, list[int]], tokenizers: Mapping[str, Tokenizer]
) -> None:
    table: list[list[str]] = []
    for name, tokens in tokenizers.items():
        errors = _session_errors(judged, rows[name], tokens, random.Random(name))
        shown = (f"{100 * mean:.1f}% / {100 * p99:.1f}%" for mean, p99 in map(_mean_and_p99, errors))
        table.append([name, *shown])
    print("\nError of the size of a session of 40 items, mean / 99th percentile")
    print_table(["tokenizer", "all of it estimated", "3 items added to a reported count"], table)


def _session_errors(
    judged: Chunks, row: Sequence[int], tokens: Tokenizer, chance: random.Random
) -> tuple[list[float], list[float]]:
    """Judge sessions of 40 items: all estimated, and the last 3 added to a count that was reported."""
    kinds = sorted(judged)
    weights = TokenWeights(tuple(row))
    items = {
        kind: [(tokens(text), weights.estimate_millitokens((text,)) / 1_000) for text in judged[kind]]
        for kind in kinds
    }
    whole: list[float] = []
    anchored: list[float] = []
    for _ in range(400):
        chosen = kinds if chance.random() < 0.5 else chance.sample(kinds, 2)
        session = [chance.choice(items[chance.choice(chosen)]) for _ in range(40)]
        total = sum(true for true, _ in session)
        reported = sum(true for true, _ in session[:-3])
        whole.append(abs(sum(estimate for _, estimate in session) / total - 1))
        anchored.append(abs((reported + sum(estimate for _, estimate in session[-3:])) / total - 1))
    return whole, anchored


def _mean_and_p99(errors: Sequence[float]) -> tuple[float, float]:
    return statistics.mean(errors), statistics.quantiles(errors, n=100)[-1]


def shipped_rows(node_modules: Path) -> list[NativeRow]:
    """Return what `make bench-native` shows of the package's weights, on text they were not fitted to."""
    _, judged = _halves(agent_texts(node_modules))
    families: dict[str, dict[str, int]] = json.loads(_WEIGHTS_PATH.read_bytes())["families"]
    rows: list[NativeRow] = []
    for name, tokens in load_tokenizers().items():
        weights = [families[name][feature] for feature in TOKEN_FEATURE_NAMES]
        kinds = [_errors(chunks, weights, tokens) for chunks in judged.values()]
        _, anchored = _session_errors(judged, weights, tokens, random.Random(name))
        measured = zip(
            _ERROR_TARGETS, (_mean_error(kinds), _lowest(kinds), *_mean_and_p99(anchored)), strict=True
        )
        for (measure, target), error in measured:
            result = f"{100 * error:+.1f}%"
            rows.append(
                NativeRow("token_estimate", f"{name}: {measure}", result, round(100 * error, 1), target)
            )
    return rows


def _document(rows: Mapping[str, list[int]]) -> dict[str, Any]:
    named = {name: dict(zip(TOKEN_FEATURE_NAMES, row, strict=True)) for name, row in rows.items()}
    return {"about": _ABOUT, "families": named}


def main() -> None:
    """Fit every family, print how far off the weights are, and store them when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node-modules", type=Path, required=True, help="a folder that holds typescript 5")
    parser.add_argument("--write", action="store_true", help="store the weights in the package")
    options = parser.parse_args()
    tokenizers = load_tokenizers()
    fitted, judged = _halves(agent_texts(options.node_modules))
    rare_fitted, rare_judged = _halves(rare_script_texts())
    rows = {name: _fit(fitted, rare_fitted, tokens) for name, tokens in tokenizers.items()}
    rows["default"] = _fit(
        fitted, rare_fitted, lambda text: max(tokens(text) for tokens in tokenizers.values())
    )
    chunks = sum(map(len, judged.values()))
    print(f"{len(judged)} kinds of text, {chunks} chunks judged and as many fitted")
    _print_kinds(judged, rows, tokenizers)
    _print_unknown(judged, rare_judged, rows, tokenizers)
    _print_sessions(judged, rows, tokenizers)
    if options.write:
        _WEIGHTS_PATH.write_text(json.dumps(_document(rows), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
