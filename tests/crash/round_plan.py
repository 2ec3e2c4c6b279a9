"""What one round of the crash suite does and when it kills: made from a seed, before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, Literal, get_args

from tests.crash.agent import Ask, build_message
from tests.crash.engine.faults import MOMENTS

__all__ = [
    "Kill",
    "Moment",
    "PlannedMessage",
    "RoundPlan",
    "SessionPlan",
    "plan_kill_in_commit",
    "plan_round",
    "plan_session",
]

ROUNDS_ON_ONE_DATABASE: Final = 5
_LONGEST_CALL_SECONDS: Final = 0.1
_LONGEST_DELAY_SECONDS: Final = 0.4
_LATEST_STEERING_SECONDS: Final = 1.5

_MOST_COMMITS_AWAY: Final = 12
_MOST_FOLDS_AWAY: Final = 3

_GATES: Final = (
    "before send_refund",
    "after send_refund",
    "before send_notice",
    "after send_notice",
    "after save_note",
    "after look_up",
    "after book_entry",
    "accept message",
    "enter RunModel",
    "leave RunModel",
    "leave CallTool",
    "leave CallSingleAttemptTool",
    "leave AwaitToolApproval",
)
"""See `tests.crash.agent`."""

Victim = Literal[
    "one worker", "a worker at a gate", "every worker", "the engine", "the engine in a commit", "everything"
]
Countable = Literal["tool runs", "answers", "acknowledged messages"]


@dataclass(frozen=True)
class Moment:
    """When something happens: so long after so many of a kind were seen in the round.

    Attributes:
        count: How many, from 0.
        of: What is counted.
        then_seconds: How long after that.
    """

    count: int
    of: Countable
    then_seconds: float


@dataclass(frozen=True)
class Kill:
    """A kill and the restart after it.

    Attributes:
        victim: Who is killed.
        moment: When; for an engine in a commit, from when on. A Worker at a gate is killed whenever it comes.
        place: The gate, or the moment of a commit.
        number: The engine is killed when it comes to that moment so often.
    """

    victim: Victim
    moment: Moment
    place: str = ""
    number: int = 1


@dataclass(frozen=True)
class PlannedMessage:
    """A message and how it is followed up.

    Attributes:
        message_id: Under which it is sent.
        text: See `tests.crash.agent.build_message`.
        is_cancelled: Whether its turn is cancelled soon after it was sent.
    """

    message_id: str
    text: str
    is_cancelled: bool


@dataclass(frozen=True)
class SessionPlan:
    """One session of a round.

    Attributes:
        session_id: Unique over all rounds.
        messages: In the order in which they are sent.
        starts_with_message: Whether the first message is part of the start.
        sends_at_once: Whether the messages are sent together, without waiting for the turns.
        callers: How many people answer each question, and send each message, at the same time.
        rejects: Chance that an answer is no.
        edits: Chance that a yes changes the arguments.
        steering: Messages that are sent to whatever runs, each so many seconds after the start.
        seed: For its answers.
    """

    session_id: str
    messages: tuple[PlannedMessage, ...]
    starts_with_message: bool
    sends_at_once: bool
    callers: int
    rejects: float
    edits: float
    steering: tuple[tuple[float, PlannedMessage], ...]
    seed: int


@dataclass(frozen=True)
class RoundPlan:
    """One round.

    Attributes:
        number: From 1.
        is_on_fresh_database: Whether the round begins a new database.
        workers: How many Worker processes share the sessions.
        sessions: What is driven.
        kills: One after the other.
    """

    number: int
    is_on_fresh_database: bool
    workers: int
    sessions: tuple[SessionPlan, ...]
    kills: tuple[Kill, ...]


def plan_round(seed: int, number: int) -> RoundPlan:
    """Return the round of a seed; each round of a seed is a different one."""
    random = Random(f"{seed}/{number}")
    kills = [_plan_kill(random) for _ in range(random.choice((1, 1, 2, 3)))]
    # Who is held at a gate must not wait there for another kill, whose moment may depend on him.
    at_gates = [kill for kill in kills if kill.victim == "a worker at a gate"]
    elsewhere = [kill for kill in kills if kill.victim != "a worker at a gate"]
    return RoundPlan(
        number=number,
        is_on_fresh_database=number % ROUNDS_ON_ONE_DATABASE in (1, 2),
        workers=random.choice((1, 1, 2)),
        sessions=tuple(plan_session(random, f"r{number}-s{place}") for place in range(1, 5)),
        kills=(*at_gates[:1], *elsewhere),
    )


def plan_kill_in_commit(random: Random) -> tuple[str, int]:
    """Return a moment of a commit and the how manieth it is."""
    moment = random.choice(MOMENTS)
    if "commit" in moment:
        return moment, random.randint(1, _MOST_COMMITS_AWAY)
    return moment, 1 if "checkpoint" in moment else random.randint(1, _MOST_FOLDS_AWAY)


def _plan_kill(random: Random) -> Kill:
    of: Countable = random.choice(("tool runs", "tool runs", "answers", "acknowledged messages"))
    moment = Moment(
        random.randint(0, 8), of, random.uniform(0, _LONGEST_DELAY_SECONDS) * random.choice((0, 1))
    )
    victim = random.choice(get_args(Victim))
    if victim == "a worker at a gate":
        return Kill(victim, moment, random.choice(_GATES))
    if victim == "the engine in a commit":
        return Kill(victim, moment, *plan_kill_in_commit(random))
    return Kill(victim, moment)


def plan_session(random: Random, session_id: str, part: str = "") -> SessionPlan:
    """Plan what a session is sent.

    Args:
        random: Decides.
        session_id: Unique over all sessions of a log.
        part: Keeps apart what the same session is sent at several times.
    """
    name = f"{session_id}{part}"
    kinds = random.sample(sorted(_KINDS), k=2)
    return SessionPlan(
        session_id=session_id,
        messages=tuple(_plan_message(random, name, place, kind) for place, kind in enumerate(kinds, 1)),
        starts_with_message=random.random() < 0.3,
        sends_at_once=random.random() < 0.4,
        callers=random.choice((1, 2, 4)),
        rejects=random.choice((0.0, 0.0, 0.3)),
        edits=random.choice((0.0, 0.0, 0.3)),
        steering=tuple(
            (random.uniform(0, _LATEST_STEERING_SECONDS), _plan_steering(random, name, place))
            for place in range(random.choice((0, 0, 1, 2)))
        ),
        seed=random.getrandbits(32),
    )


def _plan_steering(random: Random, prefix: str, place: int) -> PlannedMessage:
    name = f"{prefix}-steering{place}"
    asks = (Ask("send_notice", name), Ask("look_up", name))
    text = build_message(name, asks) if random.random() < 0.5 else build_message(name)
    return PlannedMessage(name, text, is_cancelled=False)


def _plan_message(random: Random, prefix: str, place: int, kind: str) -> PlannedMessage:
    name = f"{prefix}-m{place}"
    number = 0

    def ask(tool_name: str, failing_attempts: int = 0) -> Ask:
        nonlocal number
        number += 1
        seconds = random.uniform(0, _LONGEST_CALL_SECONDS)
        return Ask(
            tool_name,
            f"{name}-{number}",
            seconds=round(seconds, 3),
            failing_attempts=failing_attempts,
            # Beyond the size up to which the engine keeps a value in its rows.
            output_characters=random.choice((0, 0, 0, 0, 60_000)),
        )

    continuations = random.choice((0, 0, 0, 1, 3))
    text = build_message(name, *_KINDS[kind](ask), continuations=continuations)
    return PlannedMessage(name, text, is_cancelled=random.random() < 0.08)


_Responses = tuple[tuple[Ask, ...], ...]

_KINDS: Final[dict[str, Callable[[Callable[..., Ask]], _Responses]]] = {
    "one of each": lambda ask: ((ask("look_up"), ask("save_note"), ask("send_refund")),),
    "several approvals": lambda ask: (
        (ask("send_refund"), ask("send_refund"), ask("look_up"), ask("post_letter")),
    ),
    "ordered writes": lambda ask: (
        (ask("book_entry"), ask("sign_entry"), ask("save_note"), ask("book_entry"), ask("sign_entry")),
    ),
    "two responses": lambda ask: (
        (ask("look_up"), ask("save_note")),
        (ask("send_refund"), ask("send_notice"), ask("look_up")),
    ),
    "a note at the second attempt": lambda ask: ((ask("save_note", 1), ask("send_refund")),),
    "questions": lambda ask: ((ask("ask_user"), ask("ask_and_send"), ask("ask_user"), ask("save_note")),),
    "a question, then a write": lambda ask: ((ask("ask_and_send"),), (ask("send_refund"), ask("ask_user"))),
    "a wait beside other calls": lambda ask: ((ask("durable_wait"), ask("look_up"), ask("ask_and_send")),),
    "unasked writes": lambda ask: ((ask("send_notice"), ask("save_note"), ask("send_notice")),),
}
