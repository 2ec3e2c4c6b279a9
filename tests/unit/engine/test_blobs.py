"""Large values live apart from state, and go when nothing refers to them any more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.journal import Table
from dex_agents.engine.machine import (
    apply_attempt_failure,
    apply_attribute_change,
    apply_channel_change,
    apply_execute_result,
    apply_heartbeat,
    apply_stop,
    apply_wait_for_result,
)
from dex_agents.engine.retries import AttemptFailure
from dex_agents.engine.state import Run
from dex_agents.engine.store.reader import StoreReader
from dex_agents.engine.store.writer import StoreWriter
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import BLOB_GRACE_SECONDS, BlobNumbers
from tests.unit.engine.building import (
    NOW,
    channel,
    message,
    movement,
    new_run,
    null,
    only,
    skipping,
    text,
    wait,
    write,
)

LARGE = "x" * 40_000
DONE = pb.InvokeExecuteMethodResponse()


class Blobs:
    """Units that share their numbers, and what they stored and let go."""

    def __init__(self) -> None:
        self._numbers = BlobNumbers("00c0ffee", 0)
        self.stored: set[int] = set()
        self.gone: set[int] = set()
        self._units: list[Unit] = []

    def unit(self) -> Unit:
        self._units.append(Unit(self._numbers, {}, NOW))
        return self._units[-1]

    def read(self) -> tuple[int, int]:
        """Return how many blobs were stored, and how many of them are garbage."""
        stored = {blob.number for unit in self._units for blob in unit.blobs}
        gone = [
            key[0]
            for unit in self._units
            for table, key, columns in unit.operations
            if table == Table.GARBAGE and columns == (NOW + BLOB_GRACE_SECONDS,)
        ]
        assert len(gone) == len(set(gone))
        assert set(gone) <= stored
        return len(stored), len(gone)


@pytest.fixture
def blobs() -> Blobs:
    return Blobs()


def go_to(step: pb.StepMovement) -> pb.InvokeExecuteMethodResponse:
    return pb.InvokeExecuteMethodResponse(step_decision=pb.StepDecision(next_steps=[step]))


def test_an_overwritten_attribute_lets_its_blob_go(blobs: Blobs) -> None:
    run = new_run("Ask")
    for value in (text(LARGE), text(LARGE), text("small"), text(LARGE), null()):
        apply_attribute_change(run, [write("document", value)], blobs.unit(), NOW)
    assert blobs.read() == (3, 3)


def test_what_an_attribute_still_holds_stays(blobs: Blobs) -> None:
    run = new_run("Ask")
    apply_attribute_change(run, [write("a", text(LARGE)), write("m/1", text(LARGE))], blobs.unit(), NOW)
    apply_attribute_change(run, [write("b", text("other"))], blobs.unit(), NOW)
    assert blobs.read() == (2, 0)


def test_a_message_goes_with_the_execution_that_took_it(blobs: Blobs) -> None:
    run = new_run("Ask")
    result = pb.InvokeWaitForMethodResponse(waiting_condition=wait(channel("inbox")))
    apply_wait_for_result(run, only(run), result, blobs.unit(), NOW)
    apply_channel_change(run, [message("inbox", LARGE)], (), blobs.unit(), NOW)
    assert only(run).phase == "execute"
    assert blobs.read() == (1, 0)
    apply_execute_result(run, only(run), DONE, blobs.unit(), NOW)
    assert blobs.read() == (1, 1)


def test_a_message_that_is_deleted_lets_its_blob_go(blobs: Blobs) -> None:
    run = new_run("Ask")
    apply_channel_change(run, [message("inbox", LARGE)], (), blobs.unit(), NOW)
    deletion = pb.ChannelMessageDeletion(channel_name="inbox", message_id=run.channels["inbox"][0].message_id)
    apply_channel_change(run, (), [deletion], blobs.unit(), NOW)
    assert blobs.read() == (1, 1)


def test_input_locals_and_heartbeats_go_with_their_execution(blobs: Blobs) -> None:
    run = new_run("Ask")
    step = pb.StepMovement(step_type="Work", step_input=text(LARGE))
    apply_execute_result(run, only(run), go_to(step), blobs.unit(), NOW)
    result = pb.InvokeWaitForMethodResponse()
    result.upsert_step_exe_locals.add(key="local").value.CopyFrom(text(LARGE))
    apply_wait_for_result(run, only(run), result, blobs.unit(), NOW)
    for _ in range(2):
        apply_heartbeat(run, only(run), pb.StepMethodHeartbeat(value=text(LARGE)), blobs.unit())
    assert blobs.read() == (4, 1)
    apply_execute_result(run, only(run), DONE, blobs.unit(), NOW)
    assert blobs.read() == (4, 4)


def test_an_input_that_moves_to_the_recovery_step_goes_with_that(blobs: Blobs) -> None:
    run = new_run("Ask")
    options = skipping()
    options.execute_retry_policy.maximum_attempts = 1
    options.execute_failure_policy = pb.EXECUTE_METHOD_FAILURE_POLICY_PROCEED_TO_CONFIGURED_STEP
    options.execute_failure_proceed_step_type = "Recover"
    options.execute_failure_proceed_step_options.skip_wait_for = True
    step = movement("Work", options)
    step.step_input.CopyFrom(text(LARGE))
    apply_execute_result(run, only(run), go_to(step), blobs.unit(), NOW)
    apply_attempt_failure(run, only(run), AttemptFailure("broken", "E"), blobs.unit(), NOW)
    assert only(run).step_type == "Recover"
    assert blobs.read() == (1, 0)
    apply_execute_result(run, only(run), DONE, blobs.unit(), NOW)
    assert blobs.read() == (1, 1)


def test_a_run_that_is_stopped_keeps_its_data_and_lets_the_rest_go(blobs: Blobs) -> None:
    run = new_run("Ask")
    apply_attribute_change(run, [write("document", text(LARGE))], blobs.unit(), NOW)
    step = pb.StepMovement(step_type="Work", step_input=text(LARGE))
    apply_execute_result(run, only(run), go_to(step), blobs.unit(), NOW)
    apply_stop(run, pb.STOP_TYPE_CANCEL, "", blobs.unit(), NOW)
    assert blobs.read() == (2, 1)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "engine.db")


@pytest.fixture
def writer(path: str) -> Iterator[StoreWriter]:
    opened = StoreWriter(path, "normal")
    yield opened
    opened.close()


def overwrite(writer: StoreWriter, run: Run, numbers: BlobNumbers, now: float) -> None:
    unit = Unit(numbers, {}, now)
    apply_attribute_change(run, [write("document", text(LARGE))], unit, now)
    writer.append([(writer.last_sequence + 1, unit.operations)], unit.blobs)
    writer.fold()


@pytest.mark.requirement("engine-growth")
def test_garbage_is_deleted_once_its_time_has_come(writer: StoreWriter, path: str) -> None:
    run, numbers = new_run("Ask"), BlobNumbers(writer.database_id, 0)
    for step in range(3):
        overwrite(writer, run, numbers, NOW + 100 * step)
    assert writer.collect_garbage(NOW + BLOB_GRACE_SECONDS) == 0
    assert writer.collect_garbage(NOW + BLOB_GRACE_SECONDS + 100) == 1
    assert writer.collect_garbage(NOW + BLOB_GRACE_SECONDS + 200) == 1
    assert writer.collect_garbage(NOW + 10 * BLOB_GRACE_SECONDS) == 0
    reader = StoreReader(path)
    assert [reader.load_blob("string", number) is not None for number in (1, 2, 3)] == [False, False, True]
    reader.close()


def test_a_blob_number_never_comes_twice(writer: StoreWriter, path: str) -> None:
    run, numbers = new_run("Ask"), BlobNumbers(writer.database_id, 0)
    overwrite(writer, run, numbers, NOW)
    unit = Unit(numbers, {}, NOW)
    apply_attribute_change(run, [write("document", null())], unit, NOW)
    writer.append([(writer.last_sequence + 1, unit.operations)], ())
    writer.fold()
    assert writer.collect_garbage(NOW + 2 * BLOB_GRACE_SECONDS) == 1
    writer.close()
    again = StoreWriter(path, "normal")
    assert again.last_blob == 1
    again.close()
