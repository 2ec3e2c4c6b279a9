"""Large RPC answers between the engine and their caller."""

from __future__ import annotations

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.large_replies import INLINE_REPLY_BYTES, KEPT_BYTES, KEPT_SECONDS, LargeReplies

_TEXT = pb.Value(string_value="x" * INLINE_REPLY_BYTES)
_OBJECT = pb.Value(obj_value=pb.EncodedObject(encoding="json", payload=b"x" * INLINE_REPLY_BYTES))


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("answer", [_TEXT, _OBJECT])
def test_a_large_answer_is_found_under_its_id_until_its_time_is_over(answer: pb.Value) -> None:
    clock = _Clock()
    replies = LargeReplies(clock)
    wrapped = replies.wrap(answer)
    assert wrapped.ByteSize() < 100
    assert replies.find(wrapped) == answer
    clock.now = KEPT_SECONDS + 1
    assert replies.find(wrapped) is None


def test_a_small_answer_travels_as_it_is() -> None:
    small = pb.Value(string_value="x")
    assert LargeReplies(_Clock()).wrap(small) is small


def test_an_id_answers_for_its_own_kind_only() -> None:
    replies = LargeReplies(_Clock())
    text_id = replies.wrap(_TEXT).internal_blob_id_for_string_value
    assert replies.find(pb.Value(internal_blob_id_for_obj_value=text_id)) is None


def test_the_oldest_answers_go_when_all_together_are_too_large() -> None:
    replies = LargeReplies(_Clock())
    quarter = pb.Value(string_value="x" * (KEPT_BYTES // 4))
    wrapped = [replies.wrap(quarter) for _ in range(5)]
    assert [replies.find(one) is not None for one in wrapped] == [False, False, True, True, True]
