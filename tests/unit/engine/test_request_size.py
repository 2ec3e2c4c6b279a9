from __future__ import annotations

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.large_replies import LargeReplies
from dex_agents.engine.request_size import fit_task
from dex_agents.engine.requests import build_rpc_task
from dex_agents.engine.values import MAX_INLINE_BYTES
from dex_agents.engine.writes import apply_attribute_writes
from tests.unit.engine.building import new_run, new_unit, null, text, write

REQUEST = pb.InvokeRPCRequest(rpc_name="read", input=null(), load_attribute_map_instances=["pages/"])


def build(*writes: pb.AttributeWrite) -> tuple[pb.PollWorkerTaskResponse, LargeReplies, pb.Value]:
    run = new_run()
    apply_attribute_writes(run, writes, new_unit())
    response = build_rpc_task(run, REQUEST, "task", 0.0)
    replies = LargeReplies(lambda: 0.0)
    problem = fit_task(response, run, replies.keep)
    assert problem is None
    return response, replies, response.task.rpc.attributes[0].value


def test_a_task_that_fits_is_left_alone() -> None:
    response, _, value = build(write("pages/1", text("x" * 20_000)))
    assert value == text("x" * 20_000)
    assert response.ByteSize() < MAX_INLINE_BYTES


def test_the_largest_values_are_moved_until_the_task_fits() -> None:
    small = [write(f"pages/s{number}", text("s" * 10_000)) for number in range(200)]
    large = [write(f"pages/l{number}", text(f"{number:03}" * 10_000)) for number in range(150)]
    response, replies, _ = build(*small, *large)
    assert response.ByteSize() <= MAX_INLINE_BYTES
    moved = {
        attribute.key: replies.find(attribute.value)
        for attribute in response.task.rpc.attributes
        if attribute.value.HasField("internal_blob_id_for_string_value")
    }
    originals = {each.key: each.value for each in large}
    assert moved
    assert all(originals[key] == value for key, value in moved.items())


def test_the_same_content_keeps_its_id() -> None:
    replies = LargeReplies(lambda: 0.0)
    value = pb.Value(obj_value=pb.EncodedObject(encoding="json", payload=b"x" * 1000))
    assert replies.keep(value) == replies.keep(value)
    assert replies.keep(value) != replies.keep(text("x" * 1000))


def test_a_hard_delete_value_is_never_moved() -> None:
    secret = write("secret", text("k" * 40_000))
    secret.is_hard_delete_on_null = True
    large = [write(f"pages/{number:03}", text(f"{number}" * 10_000)) for number in range(180)]
    response, _, value = build(secret, *large)
    assert response.ByteSize() <= MAX_INLINE_BYTES
    assert value == secret.value


def test_a_task_that_cannot_be_made_to_fit_is_refused_with_its_size() -> None:
    run = new_run()
    many = [write(f"pages/{number}", text("x" * 200)) for number in range(20_000)]
    apply_attribute_writes(run, many, new_unit())
    response = build_rpc_task(run, REQUEST, "task", 0.0)
    problem = fit_task(response, run, LargeReplies(lambda: 0.0).keep)
    assert problem is not None
    assert f"above the limit of {MAX_INLINE_BYTES}" in problem.detail


@pytest.mark.parametrize("count", [0, 1])
def test_a_map_and_one_of_its_instances_are_loaded_once(count: int) -> None:
    run = new_run()
    apply_attribute_writes(run, [write("pages/1", text("a")), write("pages/2", text("b"))], new_unit())
    selectors = ["pages/", "pages/1"] if count else ["pages/1"]
    request = pb.InvokeRPCRequest(rpc_name="r", input=null(), load_attribute_map_instances=selectors)
    loaded = build_rpc_task(run, request, "task", 0.0).task.rpc
    assert [each.key for each in loaded.attributes] == ["pages/1", "pages/2"][: 1 + count]
    assert list(loaded.loaded_attribute_map_instances) == selectors
