"""What a caller hands in."""

from __future__ import annotations

import pytest

from dex_agents.errors import InvalidInputError
from dex_agents.limits import MAX_TOOL_ARGUMENTS_BYTES
from dex_agents.session.input_checks import require_json_object


@pytest.mark.parametrize(
    "text", ["", "[]", "1", '{"a": }', "\ud800", '"x"', '{"a": 1, "a": 2}', '{"a": NaN}']
)
def test_only_a_json_object_is_one(text: str) -> None:
    with pytest.raises(InvalidInputError, match="arguments: must be a JSON object"):
        require_json_object("arguments", text)


def test_the_problem_is_told_with_its_place() -> None:
    with pytest.raises(InvalidInputError, match="repeated key at line 2, column 2"):
        require_json_object("arguments", '{"a": 1,\n "a": 2}')


def test_arguments_beyond_the_limit_are_refused_with_both_numbers() -> None:
    text = '{"a": "' + "x" * MAX_TOOL_ARGUMENTS_BYTES + '"}'
    with pytest.raises(InvalidInputError, match="1048585 bytes, the limit is 1048576"):
        require_json_object("arguments", text)
