"""A unit: everything one decision changes, committed as a whole and followed by its effects."""

from __future__ import annotations

from collections.abc import Callable

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.journal import (
    Cells,
    EventKind,
    Operation,
    Table,
    build_chain_operation,
    build_progress_operation,
    build_run_operation,
    build_step_operation,
)
from dex_agents.engine.state import Run, RunChain, StepExecution
from dex_agents.engine.values import (
    BLOB_GRACE_SECONDS,
    BLOB_THRESHOLD_BYTES,
    Blob,
    BlobKind,
    BlobNumbers,
    read_blob_id,
)


class Unit:
    """Collects what a decision writes and what must happen once it is durable.

    Nothing recorded here leaves the process before the unit is committed.

    Attributes:
        operations: Rows to write, in order.
        blobs: Large payloads to write beside them.
        ready: Executions whose next attempt is due, in start order, with the run they belong to.
        ended: Executions that no longer exist, with their run; a Worker still busy with one is told to stop.
        timers: Executions that wait for an instant.
        runs: Runs that changed.
        deletes_secret: A hard-delete value went away, so its bytes must leave the disk.
        effects: Called in order after the commit.
        sequence: Journal sequence, once the unit is submitted.
        index_types: Search keys of the database and their types; a unit may add to them.
        keeps_history: What happens in it is recorded.
        restarts: Runs that failed and are followed by another one of the same start, and after how many
            seconds that begins.
    """

    __slots__ = (
        "_now",
        "_numbers",
        "_progress",
        "_recorded",
        "blobs",
        "deletes_secret",
        "effects",
        "ended",
        "index_types",
        "keeps_history",
        "operations",
        "ready",
        "restarts",
        "runs",
        "sequence",
        "timers",
    )

    def __init__(
        self,
        numbers: BlobNumbers,
        index_types: dict[str, int],
        now: float = 0.0,
        *,
        keeps_history: bool = True,
    ) -> None:
        self.operations: list[Operation] = []
        self.blobs: list[Blob] = []
        self.ready: list[tuple[Run, StepExecution]] = []
        self.ended: list[tuple[Run, StepExecution]] = []
        self.timers: list[tuple[Run, StepExecution]] = []
        self.runs: list[Run] = []
        self.effects: list[Callable[[], None]] = []
        self.deletes_secret = False
        self.sequence = 0
        self.index_types = index_types
        self.keeps_history = keeps_history
        self.restarts: list[tuple[Run, float]] = []
        self._recorded: Run | None = None
        self._numbers = numbers
        self._now = now
        self._progress: dict[StepExecution, int] = {}

    def touch(self, run: Run) -> None:
        """Note that a run changed, so that those who wait for it look again."""
        if run not in self.runs:
            self.runs.append(run)

    def put(
        self, table: Table, key: tuple[str | int, ...], *columns: str | int | float | bytes | None
    ) -> None:
        """Write a row."""
        self.operations.append((table, key, columns))

    def delete(self, table: Table, key: tuple[str | int, ...]) -> None:
        """Delete a row, which need not exist."""
        self.operations.append((table, key, None))

    def put_run(self, run: Run) -> None:
        """Write the row of a run."""
        self.operations.append(build_run_operation(run))

    def record(
        self,
        run: Run,
        kind: EventKind,
        at: float,
        execution: StepExecution | None = None,
        detail: bytes = b"",
    ) -> None:
        """Number a history event of a run; with the rest of the unit it says what happened.

        Args:
            run: The run, whose last event it is now.
            kind: What happened.
            at: When, as Unix time in seconds.
            execution: The execution whose method ended, as it was when that happened.
            detail: What cannot be read from the other operations of the unit; see `history`.
        """
        if not self.keeps_history:
            return
        run.last_event += 1
        self._recorded = run
        columns: Cells = (
            (at, kind, 0, "", 0, 0.0, detail)
            if execution is None
            else (
                at,
                kind,
                execution.number,
                execution.execution_id,
                execution.attempt,
                execution.due_at,
                detail,
            )
        )
        self.operations.append((Table.EVENT, (run.number, run.last_event), columns))

    def keep_results(self, run: Run, at: float) -> None:
        """Keep what a wait ended with for the event of the method that follows, whatever ended it.

        Most waits are ended by a unit that is recorded anyway; a Timer is not an event of its own.
        """
        if self.keeps_history and self._recorded is not run:
            self._recorded = run
            columns: Cells = (at, EventKind.NONE, 0, "", 0, 0.0, b"")
            self.operations.append((Table.EVENT, (run.number, run.last_event), columns))

    def put_failure(self, run: Run, execution: StepExecution, failure: pb.StepMethodFailure) -> None:
        """Write how the attempt before the present one ended."""
        execution.last_failure = failure
        self.put(Table.STEP_FAILURE, (run.number, execution.number), failure.SerializeToString())

    def delete_failure(self, run: Run, execution: StepExecution) -> None:
        """Delete how the attempt before the present one ended, if that is stored."""
        if execution.last_failure is not None:
            execution.last_failure = None
            self.delete(Table.STEP_FAILURE, (run.number, execution.number))

    def put_chain(self, run: Run, chain: RunChain) -> None:
        """Write the place of a run among those of its start."""
        run.chain = chain
        self.operations.append(build_chain_operation(run, chain))

    def put_execution(self, run: Run, execution: StepExecution) -> None:
        """Write the row of a new execution."""
        self.operations.append(build_step_operation(run, execution))

    def put_progress(self, run: Run, execution: StepExecution) -> None:
        """Write how far an execution has come."""
        execution.has_progress_row = True
        operation = build_progress_operation(run, execution)
        position = self._progress.get(execution)
        if position is None:
            self._progress[execution] = len(self.operations)
            self.operations.append(operation)
        else:
            self.operations[position] = operation

    def delete_execution(self, run: Run, execution: StepExecution, *, keeps_input: bool = False) -> None:
        """Delete the rows of an execution, and what only it refers to.

        Args:
            run: Its run.
            execution: The execution.
            keeps_input: Its input is now another one's.
        """
        if not keeps_input:
            self.discard(read_blob_id(execution.movement.step_input))
        for local in execution.step_locals.values():
            self.discard(read_blob_id(local.value))
        if execution.heartbeat is not None:
            self.discard(read_blob_id(execution.heartbeat))
        if execution.results is not None:
            for result in execution.results.channel_results:
                for value in result.values:
                    self.discard(read_blob_id(value))
        key = (run.number, execution.number)
        self.operations.append((Table.STEP, key, None))
        if execution.has_progress_row:
            self.operations.append((Table.STEP_PROGRESS, key, None))
        self.delete_failure(run, execution)

    def discard(self, blob_id: str) -> None:
        """Let a blob go that nothing refers to any more, once nobody can still be about to load it.

        Every blob has one owner: an Attribute, a search key, a message, an execution or an output. What moves
        from one to another is discarded by the last.
        """
        parsed = self._numbers.parse_id(blob_id) if blob_id else None
        if parsed is not None:
            self.put(Table.GARBAGE, (parsed[1],), self._now + BLOB_GRACE_SECONDS)

    def copy_value(self, value: pb.Value) -> pb.Value:
        """Return a stored value for another owner: itself, or the ID of a copy of its blob."""
        parsed = self._numbers.parse_id(read_blob_id(value))
        if parsed is None:
            return value
        kind, source = parsed
        number = self._numbers.next_number()
        self.blobs.append(Blob(number, kind, b"", copied_from=source))
        return _refer(kind, self._numbers.build_id(kind, number))

    def store_value(self, value: pb.Value) -> pb.Value:
        """Return what state keeps for a value: itself, or the ID of a blob written with this unit."""
        kind = value.WhichOneof("kind")
        if kind == "string_value":
            if len(value.string_value) <= BLOB_THRESHOLD_BYTES // 4:
                return value
            payload = value.string_value.encode()
            if len(payload) <= BLOB_THRESHOLD_BYTES:
                return value
            number = self._numbers.next_number()
            self.blobs.append(Blob(number, "string", payload))
            return _refer("string", self._numbers.build_id("string", number))
        if kind == "obj_value" and value.obj_value.ByteSize() > BLOB_THRESHOLD_BYTES:
            number = self._numbers.next_number()
            self.blobs.append(Blob(number, "object", value.obj_value.SerializeToString()))
            return _refer("object", self._numbers.build_id("object", number))
        return value


def _refer(kind: BlobKind, blob_id: str) -> pb.Value:
    if kind == "string":
        return pb.Value(internal_blob_id_for_string_value=blob_id)
    return pb.Value(internal_blob_id_for_obj_value=blob_id)
