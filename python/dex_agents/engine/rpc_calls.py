"""RPCs: asked of a Worker once, their effects applied as one unit."""

from __future__ import annotations

import asyncio

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.attempts import DEADLINE_GRACE_SECONDS, Attempts
from dex_agents.engine.failures import lock_conflict, rpc_timed_out
from dex_agents.engine.machine import apply_rpc_result, has_effects
from dex_agents.engine.runs import Runs
from dex_agents.engine.state import Run
from dex_agents.engine.tasks import Task
from dex_agents.engine.units import Units

DEFAULT_TIMEOUT_SECONDS = 60


class RpcCalls:
    """Serves RPCs."""

    def __init__(self, units: Units, runs: Runs, attempts: Attempts) -> None:
        self._units = units
        self._runs = runs
        self._dispatcher = attempts.dispatcher
        self._locks = attempts.locks

    async def invoke(self, request: pb.InvokeRPCRequest) -> pb.InvokeWorkerRPCResponse:
        """Let a Worker answer an RPC and commit what it changes.

        Raises:
            ServiceError: There is no such run, a lock is held, no Worker answered in time, the handler failed
                or its effects cannot be applied; in every case nothing was changed.

        Durability:
            The handler is asked once and not again after a loss; its effects and its answer are one commit.
        """
        keys = request.lock_attribute_keys
        is_strict = request.is_transactional or bool(keys)
        find = self._runs.find_open if is_strict else self._runs.find
        run = await find(request.flow_id, request.run_id)
        held = self._locks.find_held(run, keys)
        if held is not None:
            raise lock_conflict(held)
        self._locks.take(run, keys)
        sequence = 0
        try:
            result = await self._ask_worker(run, request)
            if has_effects(result):
                unit = self._units.open()
                apply_rpc_result(run, request, result, unit, self._units.now(), is_strict=is_strict)
                sequence = self._units.commit(unit)
        finally:
            self._locks.release(run, keys)
        await self._units.committer.wait_durable(sequence or run.last_sequence)
        return result

    async def _ask_worker(self, run: Run, request: pb.InvokeRPCRequest) -> pb.InvokeWorkerRPCResponse:
        timeout = request.timeout_seconds or DEFAULT_TIMEOUT_SECONDS
        reply: asyncio.Future[pb.InvokeWorkerRPCResponse] = asyncio.get_running_loop().create_future()
        task = Task(run, request=request, reply=reply, timeout=timeout + DEADLINE_GRACE_SECONDS)
        self._dispatcher.submit(task)
        try:
            async with asyncio.timeout(timeout):
                return await reply
        except TimeoutError:
            raise rpc_timed_out(request.rpc_name, timeout) from None
        finally:
            if not reply.done() or reply.cancelled():
                self._dispatcher.withdraw(task)
