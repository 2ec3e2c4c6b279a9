from __future__ import annotations

import asyncio
from collections.abc import Callable

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.dispatch import Dispatcher
from dex_agents.engine.machine import apply_rpc_result
from dex_agents.engine.state import Run
from dex_agents.engine.tasks import Task, TimeoutReason
from dex_agents.engine.workers import WorkerStream
from tests.unit.engine.building import NOW, movement, new_run, new_unit

NO_CAPACITY = pb.POLL_WORKER_TASK_REJECT_REASON_NO_CAPACITY
UNKNOWN_STEP = pb.POLL_WORKER_TASK_REJECT_REASON_UNKNOWN_STEP


class Stage:
    """A dispatcher, the frames it writes, and the tasks that it gives back."""

    def __init__(self) -> None:
        self.written: dict[str, list[pb.PollWorkerTaskResponse]] = {}
        self.sent: list[str] = []
        self.undeliverable: list[Task] = []
        self.late: list[tuple[Task, TimeoutReason]] = []
        self.not_durable: list[Callable[[], None]] | None = None
        self.names: dict[str, str] = {}
        self.dispatcher = Dispatcher(self, self._call_when_durable)
        self.run = new_run()

    def prepare_task(self, task: Task) -> tuple[bytes, int] | None:
        if task.is_withdrawn:
            return None
        response = pb.PollWorkerTaskResponse()
        response.task.task_id = task.task_id
        return response.SerializeToString(), 1

    def note_timeout(self, task: Task, reason: TimeoutReason) -> None:
        self.late.append((task, reason))

    def note_undeliverable(self, task: Task) -> None:
        self.undeliverable.append(task)

    def _call_when_durable(self, _sequence: int, call: Callable[[], None]) -> None:
        if self.not_durable is None:
            call()
        else:
            self.not_durable.append(call)

    def open(
        self, name: str, queue: str = "Flow", worker: str = "w1", types: tuple[str, ...] = ("Flow",)
    ) -> WorkerStream:
        self.written[name] = []
        register = pb.PollWorkerTaskRegister(queue=queue, app_worker_id=worker, flow_types=types)

        def write(message: bytes) -> None:
            frame = pb.PollWorkerTaskResponse.FromString(message)
            self.written[name].append(frame)
            if frame.WhichOneof("frame") == "task":
                self.sent.append(f"{self.names[frame.task.task_id]}>{name}")

        return self.dispatcher.open_stream(register, write)

    def is_acknowledged(self, name: str) -> bool:
        return any(frame.WhichOneof("frame") == "registered" for frame in self.written[name])

    def step(self, name: str, run: Run | None = None) -> Task:
        run = run or self.run
        result = pb.InvokeWorkerRPCResponse(step_decision=pb.StepDecision(next_steps=[movement("Work")]))
        apply_rpc_result(run, pb.InvokeRPCRequest(rpc_name="x"), result, new_unit(), NOW, is_strict=False)
        task = Task(run, execution=list(run.executions.values())[-1], timeout=60)
        self.names[task.task_id] = name
        self.dispatcher.submit(task)
        return task

    def rpc(self, name: str) -> Task:
        reply: asyncio.Future[pb.InvokeWorkerRPCResponse] = asyncio.get_running_loop().create_future()
        task = Task(self.run, request=pb.InvokeRPCRequest(), reply=reply, timeout=60)
        self.names[task.task_id] = name
        self.dispatcher.submit(task)
        return task


async def test_the_first_stream_of_each_queue_is_acknowledged_and_further_ones_are_held() -> None:
    stage = Stage()
    stage.open("type")
    stage.open("sticky", queue="w1")
    stage.open("spare")
    assert [stage.is_acknowledged(name) for name in ("type", "sticky", "spare")] == [True, True, False]


async def test_a_held_stream_is_acknowledged_when_a_task_needs_it() -> None:
    stage = Stage()
    stage.open("first")
    stage.open("spare")
    stage.step("a")
    assert not stage.is_acknowledged("spare")
    stage.step("b")
    assert stage.is_acknowledged("spare")
    assert stage.sent == ["a>first", "b>spare"]


async def test_a_held_stream_takes_the_place_of_the_last_acknowledged_one() -> None:
    stage = Stage()
    first = stage.open("first")
    stage.open("spare")
    stage.dispatcher.close_stream(first)
    assert stage.is_acknowledged("spare")


async def test_the_longest_idle_stream_gets_the_next_task() -> None:
    stage = Stage()
    first = stage.open("first")
    stage.open("second", queue="w1")
    stage.step("a")
    stage.dispatcher.finish(first)
    stage.step("b")
    assert stage.sent == ["a>first", "b>second"]


async def test_rpcs_go_before_steps() -> None:
    stage = Stage()
    stream = stage.open("only")
    stage.step("a")
    stage.step("b")
    stage.rpc("c")
    stage.dispatcher.finish(stream)
    assert stage.sent == ["a>only", "c>only"]


async def test_a_task_waits_for_a_worker_of_its_flow_type() -> None:
    stage = Stage()
    stage.step("a")
    stage.open("other", queue="Other", types=("Other",))
    assert stage.sent == []
    stage.open("own", worker="w2")
    assert stage.sent == ["a>own"]


async def test_a_type_queue_carries_its_own_flow_type_only() -> None:
    stage = Stage()
    stage.open("other", queue="Other", types=("Other", "Flow"))
    stage.step("a")
    assert stage.sent == []
    stage.open("sticky", queue="w1", types=("Other", "Flow"))
    assert stage.sent == ["a>sticky"]


async def test_a_run_stays_with_its_last_worker_while_that_has_room() -> None:
    stage = Stage()
    first = stage.open("first", worker="w1")
    stage.open("second", worker="w2")
    stage.step("a")
    stage.dispatcher.finish(first)
    stage.step("b")
    stage.step("c")
    assert stage.sent == ["a>first", "b>first", "c>second"]


async def test_a_decline_teaches_the_capacity_of_a_worker() -> None:
    stage = Stage()
    streams = [stage.open(name, queue="w1") for name in ("s1", "s2")]
    stage.step("a")
    declined = stage.step("b")
    stage.dispatcher.decline(streams[1], NO_CAPACITY)
    stage.dispatcher.resubmit(declined)
    stage.step("c")
    stage.rpc("d")
    assert stage.sent == ["a>s1", "b>s2", "d>s2"]
    stage.dispatcher.finish(streams[0])
    assert stage.sent[3:] == []
    stage.dispatcher.finish(streams[1])
    assert stage.sent[3:] == ["b>s1"]


async def test_a_worker_that_does_not_know_a_name_is_not_asked_again() -> None:
    stage = Stage()
    first = stage.open("first", worker="w1")
    task = stage.step("a")
    stage.dispatcher.decline(first, UNKNOWN_STEP)
    stage.dispatcher.resubmit(task)
    await asyncio.sleep(0)
    stage.step("b")
    assert stage.sent == ["a>first", "b>first"]
    stage.open("second", worker="w2")
    assert stage.sent == ["a>first", "b>first", "a>second"]


async def test_a_task_does_not_leave_before_its_unit_is_durable() -> None:
    stage = Stage()
    stage.not_durable = []
    stream = stage.open("only")
    task = stage.step("a")
    assert (stage.sent, stream.task, task.is_sent) == ([], task, False)
    for call in stage.not_durable:
        call()
    assert (stage.sent, task.is_sent) == (["a>only"], True)


async def test_a_stream_that_ends_before_its_task_left_never_carries_it() -> None:
    stage = Stage()
    stage.not_durable = []
    stream = stage.open("only")
    task = stage.step("a")
    assert stage.dispatcher.close_stream(stream) is task
    for call in stage.not_durable:
        call()
    assert (stage.sent, task.is_sent) == ([], False)


async def test_a_withdrawn_task_is_dropped_where_it_waits_and_cancelled_where_it_runs() -> None:
    stage = Stage()
    running = stage.step("a")
    waiting = stage.step("b")
    stage.dispatcher.withdraw(waiting)
    stream = stage.open("only")
    stage.dispatcher.withdraw(running)
    assert stage.written["only"][-1].cancel_task.task_id == running.task_id
    stage.dispatcher.finish(stream)
    assert stage.sent == ["a>only"]


async def test_a_worker_without_streams_is_forgotten() -> None:
    stage = Stage()
    stream = stage.open("only")
    assert [worker.worker_id for worker in stage.dispatcher.workers] == ["w1"]
    stage.dispatcher.close_stream(stream)
    assert list(stage.dispatcher.workers) == []


async def test_limits_of_running_tasks_are_watched() -> None:
    stage = Stage()
    now = asyncio.get_running_loop().time()
    stage.open("only")
    stage.open("spare")
    slow, silent = stage.step("a"), stage.step("b")
    silent.heartbeat_timeout = 5
    assert stage.dispatcher.sweep(now + 4)
    assert stage.late == []
    stage.dispatcher.sweep(now + 10)
    assert stage.late == [(silent, "heartbeat")]
    stage.dispatcher.withdraw(silent)
    stage.dispatcher.sweep(now + 61)
    assert stage.late[1:] == [(slow, "method")]


async def test_an_rpc_without_any_worker_is_given_up_and_a_step_waits() -> None:
    stage = Stage()
    now = asyncio.get_running_loop().time()
    stage.step("a")
    rpc = stage.rpc("b")
    stage.dispatcher.sweep(now + 9)
    assert stage.undeliverable == []
    stage.dispatcher.sweep(now + 11)
    assert stage.undeliverable == [rpc]
    stage.open("only")
    assert stage.sent == ["a>only"]


async def test_a_step_that_every_worker_declined_as_unknown_is_given_up() -> None:
    stage = Stage()
    now = asyncio.get_running_loop().time()
    stream = stage.open("only")
    task = stage.step("a")
    stage.dispatcher.decline(stream, UNKNOWN_STEP)
    stage.dispatcher.resubmit(task)
    stage.dispatcher.sweep(now + 11)
    assert stage.undeliverable == [task]


async def test_a_task_that_is_withdrawn_before_it_is_durable_never_leaves() -> None:
    stage = Stage()
    stage.open("first")
    stage.open("spare")
    stage.step("a")
    stage.not_durable = []
    unwanted = stage.step("b")
    stage.dispatcher.withdraw(unwanted)
    for call in stage.not_durable:
        call()
    stage.not_durable = None
    assert stage.sent == ["a>first"]
    assert not stage.is_acknowledged("spare")
    stage.step("c")
    assert stage.sent == ["a>first", "c>spare"]
