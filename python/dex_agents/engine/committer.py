"""Group commit: units queue, one thread writes them, then their effects are released.

While a commit is on its way to the disk the next units gather, so a busy engine pays for few commits and an
idle one answers after a single one. Folding and checkpoints run between commits, when there is time or when
the journal has grown. A failed commit leaves memory ahead of the disk, so it ends the engine.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from queue import Empty, SimpleQueue

from dex_agents.engine.clock import Clock
from dex_agents.engine.failures import unavailable
from dex_agents.engine.store.checkpointer import Checkpointer
from dex_agents.engine.store.writer import Folded, StoreWriter
from dex_agents.engine.unit import Unit

FOLD_BACKLOG = 1024
"""Units that wait at most before they are folded in the middle of the work."""

FOLD_IDLE_SECONDS = 0.25
"""Silence after which the journal is folded."""

IDLE_LOG_BYTES = 2 * 1024 * 1024
"""Size of the log from which it is copied into the database file when there is time."""

BUSY_LOG_BYTES = 16 * 1024 * 1024
"""The same in the middle of the work, where most of it is copied beside the commits."""

COMPANY_SECONDS = 0.02
"""How long a unit that nobody waits for looks out for another one to be committed with."""

MAX_COMPANY_OPERATIONS = 64
"""Operations that such a unit gathers: each may be a message of some megabytes, and a unit is one row."""

LATENCIES_KEPT = 1024
"""Commits whose latency is remembered."""

MAX_GROUP_UNITS = 512
"""Units in one commit, which bounds how long a commit can take."""

_LOGGER = logging.getLogger(__name__)


class _Order(Enum):
    FOLD = "fold"
    STOP = "stop"


class _Watermark:
    """A rising sequence, and who waits for it."""

    def __init__(self, value: int) -> None:
        self.value = value
        self._waiting: list[tuple[int, asyncio.Future[None] | Callable[[], None]]] = []

    def call_at(self, sequence: int, call: Callable[[], None]) -> None:
        if sequence <= self.value:
            call()
        else:
            self._waiting.append((sequence, call))

    def wait_for(self, sequence: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((sequence, future))
        return future

    def raise_to(self, sequence: int) -> None:
        self.value = sequence
        waiting = self._waiting
        if not waiting:
            return
        self._waiting = [entry for entry in waiting if entry[0] > sequence]
        for wanted, waiter in waiting:
            if wanted > sequence:
                continue
            if callable(waiter):
                waiter()
            elif not waiter.done():
                waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        for _, waiter in self._waiting:
            if isinstance(waiter, asyncio.Future) and not waiter.done():
                waiter.set_exception(error)
        self._waiting = []


class Committer:
    """Queues units on the event loop and commits them on a thread of its own.

    Attributes:
        failure: What ended it, or `None`.
        commits: Commits so far.
        committed_units: Units in them.
        latencies: Seconds that each of the last commits took.
    """

    def __init__(
        self,
        writer: StoreWriter,
        release: Callable[[Unit], None],
        on_folded: Callable[[Folded], None],
        on_failure: Callable[[BaseException], None],
        clock: Clock,
    ) -> None:
        """Wrap a store.

        Args:
            writer: The store; it belongs to the committer from here on.
            release: Called on the loop for every unit, in order, once it is durable.
            on_folded: Called on the loop after every fold.
            on_failure: Called on the loop once, when the store failed.
            clock: The time, by which payloads become garbage.
        """
        self._durable = _Watermark(writer.last_sequence)
        self._folded = _Watermark(writer.last_sequence)
        self.failure: BaseException | None = None
        self._writer = writer
        self._release = release
        self._on_folded = on_folded
        self._on_failure = on_failure
        self._clock = clock
        self.commits = 0
        self.committed_units = 0
        self.latencies: deque[float] = deque(maxlen=LATENCIES_KEPT)
        self._last_sequence = writer.last_sequence
        self._queue: SimpleQueue[Unit | _Order] = SimpleQueue()
        self._submitted: deque[Unit] = deque()
        self._in_no_hurry: Unit | None = None
        self._hurry: asyncio.TimerHandle | None = None
        self._must_purge = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name="dex-agents-committer", daemon=True)

    @property
    def folded(self) -> int:
        """Sequence of the last unit that readers can see."""
        return self._folded.value

    @property
    def backlog(self) -> int:
        """Number of committed units that readers cannot see yet."""
        return self._durable.value - self._folded.value

    @property
    def log_bytes(self) -> int:
        """Size of the write-ahead log."""
        return self._writer.log_bytes

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def number(self, unit: Unit) -> None:
        """Give a unit its sequence; it is to be submitted before any other one gets one."""
        self._last_sequence += 1
        unit.sequence = self._last_sequence
        for run in unit.runs:
            run.last_sequence = unit.sequence
        self._submitted.append(unit)

    def submit(self, unit: Unit) -> int:
        """Queue a unit and return its sequence. Units become durable in the order of submission."""
        if not unit.sequence:
            self.number(unit)
        self._hurry_up()
        self._queue.put(unit)
        return unit.sequence

    def find_company(self) -> Unit | None:
        """Return the unit that waits for company, if it has room: what is added is committed with it."""
        unit = self._in_no_hurry
        return None if unit is None or len(unit.operations) >= MAX_COMPANY_OPERATIONS else unit

    def submit_in_company(self, unit: Unit) -> int:
        """Queue a unit that nobody waits for: it goes with the next one, or after `COMPANY_SECONDS`.

        A sync of its own would make the disk the limit of what a busy Step says. Whoever does come to wait
        for it does not wait longer for that.
        """
        self._hurry_up()
        self.number(unit)
        self._in_no_hurry = unit
        self._hurry = self._loop.call_later(COMPANY_SECONDS, self._hurry_up)
        return unit.sequence

    async def wait_durable(self, sequence: int) -> None:
        """Wait until a unit survives a crash.

        Raises:
            ServiceError: The engine is ending.
        """
        if sequence > self._durable.value:
            self._require_working()
            self._hurry_up_to(sequence)
            await self._durable.wait_for(sequence)

    def call_when_durable(self, sequence: int, call: Callable[[], None]) -> None:
        """Call something once a unit survives a crash: now, if it does already."""
        self._hurry_up_to(sequence)
        self._durable.call_at(sequence, call)

    async def wait_folded(self) -> None:
        """Wait until readers see everything submitted so far.

        Raises:
            ServiceError: The engine is ending.
        """
        if self._last_sequence > self._folded.value:
            self._require_working()
            self._hurry_up()
            folded = self._folded.wait_for(self._last_sequence)
            self._queue.put(_Order.FOLD)
            await folded

    async def stop(self) -> None:
        """Commit what is queued, fold, empty the log and close the store."""
        self._hurry_up()
        self._queue.put(_Order.STOP)
        await self._loop.run_in_executor(None, self._thread.join)

    def _hurry_up_to(self, sequence: int) -> None:
        if self._in_no_hurry is not None and self._in_no_hurry.sequence <= sequence:
            self._hurry_up()

    def _hurry_up(self) -> None:
        if self._hurry is not None:
            self._hurry.cancel()
            self._hurry = None
        unit, self._in_no_hurry = self._in_no_hurry, None
        if unit is not None:
            self._queue.put(unit)

    def _work(self) -> None:
        writer = self._writer
        try:
            checkpointer = Checkpointer(writer.path, writer.synchronous, self._note_failure)
            try:
                self._work_until_stopped(writer, checkpointer)
            finally:
                checkpointer.stop()
            self._fold(writer)
            writer.purge_log()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the engine
            self._note_failure(error)
        finally:
            writer.close()

    def _note_failure(self, error: BaseException) -> None:
        _LOGGER.critical("the engine cannot write its database and stops", exc_info=error)
        self._notify(self._fail, error)

    def _work_until_stopped(self, writer: StoreWriter, checkpointer: Checkpointer) -> None:
        queue = self._queue
        while True:
            try:
                is_idle_work = writer.backlog or self._must_purge
                item = queue.get(timeout=FOLD_IDLE_SECONDS) if is_idle_work else queue.get()
            except Empty:
                self._fold(writer)
                self._tidy(writer)
                continue
            group: list[Unit] = []
            while isinstance(item, Unit):
                group.append(item)
                if len(group) == MAX_GROUP_UNITS:
                    break
                try:
                    item = queue.get_nowait()
                except Empty:
                    break
            if group:
                self._commit(writer, group)
                if writer.backlog >= FOLD_BACKLOG:
                    self._fold(writer)
                    if writer.log_bytes > BUSY_LOG_BYTES:
                        checkpointer.request()
                if checkpointer.take_done():
                    # What was committed during the pass: little, and afterwards the log begins anew.
                    writer.checkpoint()
            if item is _Order.STOP:
                return
            if item is _Order.FOLD:
                self._fold(writer)

    def _commit(self, writer: StoreWriter, group: list[Unit]) -> None:
        blobs = [blob for unit in group for blob in unit.blobs]
        begun = time.perf_counter()
        writer.append([(unit.sequence, unit.operations) for unit in group], blobs)
        self.latencies.append(time.perf_counter() - begun)
        self.commits += 1
        self.committed_units += len(group)
        self._notify(self._on_durable, group[-1].sequence)
        if any(unit.deletes_secret for unit in group):
            self._must_purge = True
            self._fold(writer)
            self._tidy(writer)

    def _tidy(self, writer: StoreWriter) -> None:
        if self._must_purge:
            self._must_purge = not writer.purge_log()
        elif writer.log_bytes > IDLE_LOG_BYTES:
            writer.checkpoint()

    def _fold(self, writer: StoreWriter) -> None:
        self._notify(self._note_folded, writer.fold())
        writer.collect_garbage(self._clock.now())

    def _notify(self, call: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)

    def _on_durable(self, sequence: int) -> None:
        submitted = self._submitted
        while submitted and submitted[0].sequence <= sequence:
            self._release(submitted.popleft())
        self._durable.raise_to(sequence)

    def _note_folded(self, folded: Folded) -> None:
        self._on_folded(folded)
        self._folded.raise_to(folded.sequence)

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._durable.fail(unavailable("the engine cannot write its database"))
        self._folded.fail(unavailable("the engine cannot write its database"))
        self._on_failure(error)

    def _require_working(self) -> None:
        if self.failure is not None:
            raise unavailable("the engine cannot write its database")
