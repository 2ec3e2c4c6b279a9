"""What the engine knows about a Flow run, in memory.

A run lives here while something goes on with it; afterwards it is dropped and read back from the state tables
when somebody asks. Nothing in this module decides anything.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, Protocol

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.values import read_blob_id

Phase = Literal["wait_for", "waiting", "execute"]
"""Where a Step execution stands: its first method, its condition, its second method."""

TIMEOUT_HANDLER = "sys:timeout_handler"
"""The Step type of the Flow's soft timeout."""

MESSAGE_COUNTER = "$messages"
"""Name of the counter of published messages: one that no Step type can have."""


class AttemptToken(Protocol):
    """What stands for an attempt while it is queued or running.

    Attributes:
        is_sent: A Worker may have run some of it.
    """

    is_sent: bool


@dataclass(slots=True)
class Attribute:
    """A stored Attribute value.

    Attributes:
        fragment: A serialised Worker request that holds nothing but this one Attribute. All three kinds of
            request share the field number, so a request is built by merging fragments, without parsing or
            copying values.
        is_secret: The value must leave the disk when it is deleted.
        blob_id: The blob that holds the value, or `""`.
    """

    fragment: bytes
    is_secret: bool
    blob_id: str = ""

    def read_value(self) -> pb.Value:
        """Return the value itself."""
        return pb.InvokeWorkerRPCRequest.FromString(self.fragment).attributes[0].value


@dataclass(slots=True)
class IndexEntry:
    """What a search key holds.

    Attributes:
        attribute: Key of the Attribute that was written last under this search key.
        rows: Number of index rows it occupies.
        blob_id: The blob that holds what search results show, or `""`.
    """

    attribute: str
    rows: int
    blob_id: str = ""


@dataclass(slots=True)
class Message:
    """A message waiting in a Channel.

    Attributes:
        sequence: Publish order within the run.
        message_id: Names the message towards clients; sorts in publish order.
        value: What was published.
    """

    sequence: int
    message_id: str
    value: pb.Value


@dataclass(slots=True)
class TimerState:
    """A Timer of a waiting execution.

    Attributes:
        fire_at: Unix time in seconds.
        status: Pending, fired or skipped.
    """

    fire_at: float
    status: pb.InternalTimerStatus = pb.INTERNAL_TIMER_STATUS_PENDING

    @property
    def is_over(self) -> bool:
        """Whether the Timer counts as completed."""
        return self.status != pb.INTERNAL_TIMER_STATUS_PENDING


@dataclass(slots=True, eq=False)
class StepExecution:
    """One active execution of a Step.

    Attributes:
        number: Start order within the run.
        execution_id: `Type-N`.
        movement: Type, input, options, origin and recovery error; never changed.
        phase: Where it stands.
        attempt: Number of the present attempt of the present method, from 1.
        is_started: The present attempt was durably marked as handed to a Worker. Kept only for methods with a
            finite number of attempts, where a repeat would break a promise.
        first_attempt_at: When the present method became due first; constant over its retries.
        due_at: When the present attempt may start.
        condition: What it waits for.
        timers: One state for every declared Timer.
        step_locals: Values shared by both methods.
        results: What the wait ended with.
        heartbeat: The value of the last heartbeat of the present method.
        has_progress_row: Something beyond the initial state was stored.
        attempt_token: The task of the present attempt while it is queued or running; compared by identity, so
            that an answer of an abandoned attempt is recognised.
        last_failure: How the attempt before the present one ended, or `None` for the first of its method.
    """

    number: int
    execution_id: str
    movement: pb.StepMovement
    phase: Phase
    first_attempt_at: float
    due_at: float
    attempt: int = 1
    is_started: bool = False
    condition: pb.WaitingCondition | None = None
    timers: list[TimerState] = field(default_factory=list[TimerState])
    step_locals: dict[str, pb.KV] = field(default_factory=dict[str, pb.KV])
    results: pb.ConditionResults | None = None
    heartbeat: pb.Value | None = None
    has_progress_row: bool = False
    attempt_token: AttemptToken | None = None
    last_failure: pb.StepMethodFailure | None = None

    @property
    def step_type(self) -> str:
        """Its Step type."""
        return self.movement.step_type

    @property
    def origin(self) -> str:
        """The execution, RPC or start that scheduled it."""
        return self.movement.from_step_execution_id_internal_only


@dataclass(slots=True)
class RunChain:
    """The place of a run among those of one start with a Flow retry policy, each after the last failed.

    Attributes:
        attempt: Its number, from 1.
        first_run_id: The run ID of the first.
        begun_at: When the first started, as Unix time in seconds.
        request: The start, for the next run; `None` once there is none to come. Its large values are blobs of
            its own, and a hard-delete value is not among them.
    """

    attempt: int
    first_run_id: str
    begun_at: float
    request: pb.StartFlowRequest | None


@dataclass(slots=True, eq=False, weakref_slot=True)
class Run:
    """One run of a Flow.

    Attributes:
        number: Key in the database, unique over all runs and rising with time.
        run_id: Name towards clients.
        flow_id: Name of the Flow; a later run may carry it again.
        flow_type: Type of the Flow.
        request_id: Idempotency key of its start.
        started_at: Unix time in seconds.
        config: Present configuration.
        timeout_at: When the soft timeout strikes, or `None`.
        timeout_policy: What the soft timeout does.
        timeout_options: Options of the Step that handles the timeout, where the policy asks for one.
        status: Running, or how it closed.
        closed_at: Unix time in seconds, or `None` while it runs.
        error_type: Why it failed.
        error_message: Why it failed, in words.
        is_completing: A graceful completion was decided; the run closes when no execution is active.
        plain: Attributes that every request carries.
        maps: Instances of Attribute maps, by map name (with its trailing `/`) and full key.
        indexes: Search keys in use.
        channels: Waiting messages, oldest first; an empty Channel is absent.
        last_message: Sequence of the last published message.
        started_counts: Executions started so far, by Step type.
        last_execution: Number of the last started execution.
        executions: Active executions by number, hence in start order.
        outputs: What completing executions returned.
        locks: Attribute keys held by RPCs and by running attempts.
        sticky_worker: Worker that served it last.
        last_sequence: Journal sequence of the last unit that changed it.
        last_event: Number of its last history event, or 0.
        chain: Its place among the runs of a start with a Flow retry policy, or `None` without one.
        plain_fragment: Cache: the joined fragments of `plain`, or `None` when they changed.
    """

    number: int
    run_id: str
    flow_id: str
    flow_type: str
    request_id: str
    started_at: float
    config: pb.FlowConfig
    timeout_at: float | None = None
    timeout_policy: pb.FlowTimeoutPolicy = pb.FLOW_TIMEOUT_POLICY_UNSPECIFIED
    timeout_options: pb.StepOptions = field(default_factory=pb.StepOptions)
    status: pb.FlowStatus = pb.FLOW_STATUS_RUNNING
    closed_at: float | None = None
    error_type: pb.FlowErrorType = pb.FLOW_ERROR_TYPE_UNSPECIFIED
    error_message: str = ""
    is_completing: bool = False
    plain: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    maps: dict[str, dict[str, Attribute]] = field(default_factory=dict[str, dict[str, Attribute]])
    indexes: dict[str, IndexEntry] = field(default_factory=dict[str, IndexEntry])
    channels: dict[str, deque[Message]] = field(default_factory=dict[str, deque[Message]])
    last_message: int = 0
    started_counts: dict[str, int] = field(default_factory=dict[str, int])
    last_execution: int = 0
    executions: dict[int, StepExecution] = field(default_factory=dict[int, StepExecution])
    outputs: list[pb.StepCompletionOutput] = field(default_factory=list[pb.StepCompletionOutput])
    locks: set[str] = field(default_factory=set[str])
    sticky_worker: str = ""
    last_sequence: int = 0
    last_event: int = 0
    chain: RunChain | None = None
    plain_fragment: bytes | None = None

    @property
    def is_running(self) -> bool:
        """Whether the run is open."""
        return self.status == pb.FLOW_STATUS_RUNNING

    @property
    def run_attempt(self) -> int:
        """Its number among the runs of its start, from 1."""
        return 1 if self.chain is None else self.chain.attempt

    @property
    def first_run_id(self) -> str:
        """The run ID of the first run of its start."""
        return self.run_id if self.chain is None else self.chain.first_run_id

    def find_attribute(self, key: str) -> Attribute | None:
        """Return the Attribute or map instance with a full key."""
        map_name = split_map_key(key)
        return self.plain.get(key) if map_name is None else self.maps.get(map_name, {}).get(key)

    def put_attribute(self, key: str, value: pb.Value, *, is_secret: bool) -> None:
        """Set an Attribute or map instance."""
        map_name = split_map_key(key)
        attribute = Attribute(build_attribute_fragment(key, value), is_secret, read_blob_id(value))
        if map_name is None:
            self.plain[key] = attribute
            self.plain_fragment = None
        else:
            self.maps.setdefault(map_name, {})[key] = attribute

    def pop_attribute(self, key: str) -> Attribute | None:
        """Remove an Attribute or map instance and return what it was."""
        map_name = split_map_key(key)
        if map_name is None:
            self.plain_fragment = None
            return self.plain.pop(key, None)
        instances = self.maps.get(map_name)
        return None if instances is None else instances.pop(key, None)

    def find_execution(self, execution_id: str) -> StepExecution | None:
        """Return the active execution with an ID."""
        return next((each for each in self.executions.values() if each.execution_id == execution_id), None)


def split_map_key(key: str) -> str | None:
    """Return the map name (with its trailing `/`) of a map instance's key, or `None` for a plain
    Attribute.
    """
    slash = key.find("/")
    return None if slash < 0 else key[: slash + 1]


def build_attribute_fragment(key: str, value: pb.Value) -> bytes:
    """Serialise one Attribute as a mergeable piece of a Worker request."""
    request = pb.InvokeWorkerRPCRequest()
    attribute = request.attributes.add()
    attribute.key = key
    attribute.value.CopyFrom(value)
    return request.SerializeToString()
