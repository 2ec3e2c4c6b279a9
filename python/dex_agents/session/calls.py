"""Calls to the engine: repeated while it restarts, and its errors in this package's words."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import grpc
from dex import (
    AsyncClient,
    ChannelMessageNotFoundError,
    DexServiceError,
    FlowAlreadyStartedError,
    FlowNotActiveOrNotFoundError,
    FlowNotFoundError,
    LongPollTimeoutError,
    RequestTimeoutError,
    RpcLockConflictError,
    ValueMappingError,
    WorkerInvocationError,
)

from dex_agents.errors import (
    SessionAlreadyExistsError,
    SessionClosedError,
    SessionError,
    SessionNotFoundError,
    SessionUnavailableError,
    WireFormatError,
)

__all__ = ["SessionCalls"]

ResultT = TypeVar("ResultT")

_PATIENCE_SECONDS: Final = 15.0
"""A restarting engine is back within this time; a longer outage is the caller's to handle."""

_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5


class SessionCalls:
    """Makes calls on sessions, with repeats where a repeat is safe."""

    def __init__(self, client: AsyncClient) -> None:
        """Wrap the SDK's client."""
        self._client = client

    async def repeat(self, session_id: str, call: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Make a call that takes effect once however often it is made.

        It is repeated while the engine cannot be reached, and while another command holds the same lock.

        Raises:
            SessionError: In the words of this package.
            WireFormatError: The reply was written by a newer version.
            LongPollTimeoutError: The call was a long poll and nothing happened.
            RequestTimeoutError: As above, noticed on this side.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        pause = _FIRST_PAUSE
        while True:
            try:
                return await call()
            except (LongPollTimeoutError, RequestTimeoutError):
                raise
            except FlowAlreadyStartedError:
                raise SessionAlreadyExistsError(session_id) from None
            except FlowNotFoundError:
                raise SessionNotFoundError(session_id) from None
            except FlowNotActiveOrNotFoundError:
                raise await self._ended_or_unknown(session_id) from None
            except ValueMappingError as error:
                # The reply of a Worker that is newer than this client: a repeat would bring the same.
                unreadable = error.__cause__
                if isinstance(unreadable, WireFormatError):
                    raise unreadable from unreadable.__cause__
                raise
            except DexServiceError as error:
                await self.pause_or_raise(session_id, error, deadline, pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    async def pause_or_raise(
        self, session_id: str, error: DexServiceError, deadline: float, pause: float = _LONGEST_PAUSE
    ) -> None:
        """Wait before the next attempt, or say why there is none.

        Raises:
            SessionUnavailableError: The engine or its Workers did not answer in time.
            SessionError: The call failed for a reason that a repeat does not change.
        """
        if not _passes(error):
            raise _translated(session_id, error) from error
        if time.monotonic() + pause > deadline:
            raise SessionUnavailableError(
                session_id, f"session {session_id!r}: {_described(error)}"
            ) from error
        # Many callers wait for the same lock or the same restart: they must not come back all at once.
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  # not a secret

    async def _ended_or_unknown(self, session_id: str) -> SessionError:
        try:
            await self._client.describe_flow(session_id)
        except FlowNotFoundError:
            return SessionNotFoundError(session_id)
        return SessionClosedError(session_id)


def _passes(error: DexServiceError) -> bool:
    # A lock that is held, an engine that restarts, or a Worker that died with the call: nothing was
    # committed.
    if isinstance(error, WorkerInvocationError):
        return error.worker_code is grpc.StatusCode.UNAVAILABLE
    overtaken = isinstance(error, RpcLockConflictError | ChannelMessageNotFoundError)
    return overtaken or error.code is grpc.StatusCode.UNAVAILABLE


def _described(error: DexServiceError) -> str:
    if isinstance(error, WorkerInvocationError):
        return "no Worker answered in time"
    return f"the engine did not answer in time ({error.code.name})"


def _translated(session_id: str, error: DexServiceError) -> SessionError:
    if isinstance(error, WorkerInvocationError) and error.worker_error_detail:
        detail = f"{error.worker_error_type}: {error.worker_error_detail}"
        return SessionError(session_id, f"session {session_id!r}: {detail}")
    if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return SessionUnavailableError(session_id, f"session {session_id!r}: no Worker answered in time")
    return SessionError(session_id, f"session {session_id!r}: {error}")
