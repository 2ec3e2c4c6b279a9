"""Whether an Attribute matches what a client waits for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.failures import failed_precondition, invalid_argument
from dex_agents.engine.state import Run
from dex_agents.engine.values import read_scalar

_EQUALITY: dict[int, Callable[[Any, Any], bool]] = {
    pb.ATTRIBUTE_MATCH_OPERATOR_EQUAL: operator.eq,
    pb.ATTRIBUTE_MATCH_OPERATOR_NOT_EQUAL: operator.ne,
}
_ORDERING: dict[int, Callable[[Any, Any], bool]] = {
    pb.ATTRIBUTE_MATCH_OPERATOR_GREATER_THAN: operator.gt,
    pb.ATTRIBUTE_MATCH_OPERATOR_GREATER_THAN_OR_EQUAL: operator.ge,
    pb.ATTRIBUTE_MATCH_OPERATOR_LESS_THAN: operator.lt,
    pb.ATTRIBUTE_MATCH_OPERATOR_LESS_THAN_OR_EQUAL: operator.le,
}


def validate_match(match: pb.AttributeMatch) -> None:
    """Require a match that can be evaluated.

    Raises:
        ServiceError: The key is empty, the operator unknown, or the operand not a scalar that it can compare.
    """
    if not match.key:
        raise invalid_argument("match.key", "must not be empty")
    operand = read_scalar(match.operand)
    if operand is None:
        raise invalid_argument("match.operand", "must be a string, boolean or number")
    if match.operator in _ORDERING:
        if isinstance(operand, str | bool):
            raise invalid_argument("match.operand", "must be a number for an ordering operator")
    elif match.operator not in _EQUALITY:
        raise invalid_argument("match.operator", "must be set")


def find_match(run: Run, match: pb.AttributeMatch) -> pb.Value | None:
    """Return the value of an Attribute that matches, or `None` while it is absent, differs or has another
    type.

    Raises:
        ServiceError: The Attribute is too large to be compared.
    """
    attribute = run.find_attribute(match.key)
    if attribute is None:
        return None
    value = attribute.read_value()
    kind = value.WhichOneof("kind")
    if kind in {"internal_blob_id_for_string_value", "internal_blob_id_for_obj_value"}:
        raise failed_precondition(f"attribute {match.key!r} is too large to be waited for")
    if kind != match.operand.WhichOneof("kind"):
        return None
    compare = _EQUALITY.get(match.operator) or _ORDERING[match.operator]
    return value if compare(read_scalar(value), read_scalar(match.operand)) else None
