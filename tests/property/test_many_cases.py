"""The native capabilities against their oracles, over random values: with `make test-thorough` 100,000 each.

An assertion that fails shows the number of its case, and `Chance(number)` makes it again.
"""

from __future__ import annotations

import json
from typing import Any

from dex_agents._native import TOKEN_FEATURE_NAMES, TokenWeights
from dex_agents.codecs.json_text import JsonProblem, read_json_object
from dex_agents.media.image_check import check_image, check_images
from dex_agents.ui_stream import encode_ui_frames
from tests.oracles.event_stream import read_events
from tests.oracles.image_check import oracle_check
from tests.oracles.json_objects import oracle_read
from tests.oracles.json_text import VARIANTS, Encoder
from tests.oracles.token_estimate import weigh_text
from tests.oracles.ui_frames import DELTA_MEMBERS, frames, healed_text
from tests.property.chance import Chance, cases
from tests.property.test_json_objects import TOKENS, loads_strictly, same

DEPTH = 5


def outcome(encode: Encoder, value: Any) -> tuple[str, str]:
    try:
        return "text", encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        return type(error).__name__, str(error)


def test_json_values_are_spelled_as_json_dumps_spells_them() -> None:
    for chance in cases():
        value = chance.plain_value()
        for encode, oracle in VARIANTS.values():
            assert outcome(encode, value) == outcome(oracle, value), chance.number


def test_any_other_value_has_the_text_or_the_error_of_json_dumps() -> None:
    for chance in cases():
        value = chance.odd_value()
        for encode, oracle in VARIANTS.values():
            assert outcome(encode, value) == outcome(oracle, value), chance.number


def test_strings_and_floats_are_spelled_as_json_dumps_spells_them() -> None:
    for chance in cases():
        value = [chance.text(6), chance.float(), chance.float(), chance.integer()]
        for encode, oracle in VARIANTS.values():
            assert encode(value) == oracle(value), chance.number


def json_text(chance: Chance) -> str:
    """JSON text of an object, cut and changed here and there, or tokens."""
    if chance.randrange(3) == 0:
        return chance.choice(("", '{"a":', '{"a":"')) + chance.tokens(TOKENS, 24)
    value = {chance.text(2): chance.plain_value() for _ in range(chance.randrange(4))}
    indent = chance.choice((None, None, 1))
    text = (
        json.dumps(value, ensure_ascii=bool(chance.randrange(2)), indent=indent)
        .encode(errors="replace")
        .decode()
    )
    for _ in range(chance.randrange(3)):
        start = chance.randrange(len(text) + 1)
        end = start + chance.choice((0, 0, 1, 1, 2, 9, len(text)))
        text = text[:start] + chance.tokens(TOKENS, 3) + text[end:]
    return text


def test_a_text_has_the_value_or_the_problem_that_the_oracle_finds() -> None:
    for chance in cases():
        text = json_text(chance)
        found, expected = read_json_object(text, max_depth=DEPTH), oracle_read(text, max_depth=DEPTH)
        if isinstance(found, JsonProblem) or isinstance(expected, JsonProblem):
            assert found == expected, chance.number
        else:
            assert found.healed == expected.healed, chance.number
            assert same(found.value, expected.value), chance.number
            assert found.healed or same(found.value, loads_strictly(text)), chance.number


def test_images_are_checked_as_the_oracle_checks_them() -> None:
    for chance in cases():
        image = chance.image()
        assert check_image(image) == oracle_check(image), chance.number


def test_several_images_are_checked_as_each_is_alone() -> None:
    for chance in cases():
        images = [chance.image() for _ in range(chance.randrange(4))]
        assert check_images(images) == [check_image(image) for image in images], chance.number


def test_a_text_weighs_what_the_oracle_says() -> None:
    for chance in cases():
        text, more = chance.text(8), chance.text(3)
        row = tuple(chance.getrandbits(32) for _ in TOKEN_FEATURE_NAMES)
        named = dict(zip(TOKEN_FEATURE_NAMES, row, strict=True))
        weights = TokenWeights(row)
        weighed = weights.estimate_millitokens((text,))
        assert weighed == weigh_text(text, named), chance.number
        together = weights.estimate_millitokens((text, more))
        assert together == weighed + weights.estimate_millitokens((more,)), chance.number


def ui_part(chance: Chance) -> dict[str, Any]:
    if chance.randrange(4) == 0:
        return {chance.text(2): chance.plain_value(2) for _ in range(3)}
    kind = chance.choice(("text-delta", "text-delta", *DELTA_MEMBERS))
    owner = chance.choice(("1", "1", "1", "2", "\ud800", "\udfff"))
    part = dict(zip(DELTA_MEMBERS[kind], (kind, owner, chance.text(3)), strict=True))
    return part if chance.randrange(8) else {**part, "more": chance.leaf()}


def test_a_batch_has_the_frames_of_the_oracle() -> None:
    for chance in cases():
        batch = [ui_part(chance) for _ in range(chance.randrange(7))]
        bound = chance.choice((0, 10, 50, 200, 32 * 1024))
        ids = (
            [f"{chance.number}-{index}é\u2028" for index in range(len(batch))]
            if chance.randrange(2)
            else None
        )
        written = encode_ui_frames(batch, event_ids=ids, max_joined_bytes=bound)
        assert written == frames(batch, event_ids=ids, max_joined_bytes=bound), chance.number


def test_a_reader_that_is_fed_pieces_folds_the_text_that_was_given() -> None:
    for chance in cases():
        batch = [
            {"type": "text-delta", "id": "1", "delta": chance.text(3)} for _ in range(chance.randrange(5))
        ]
        stream = encode_ui_frames(batch, max_joined_bytes=chance.choice((0, 50, 32 * 1024)))
        events = read_events(stream, step=chance.randrange(1, 10))
        folded = "".join(json.loads(event.data)["delta"] for event in events)
        assert folded == "".join(healed_text(part["delta"]) for part in batch), chance.number
