"""Restate with its Python SDK, as a `TurnPeer`: one server node, and one process that serves the session.

The client is in this process and speaks HTTP to the server. Every setting is the shipped one but the ports,
the folder and what is logged or reported home.
"""

# Restate is installed for `make bench-turns` alone.
# pyright: reportMissingImports=false

import argparse
import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from benches.end_to_end.turns_driver import TurnPeer, add_plan_arguments, read_cpu_seconds, run_plan
from benches.workloads.turns import ANSWER, StoredMessage

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0
_TURN_SECONDS: Final = 60.0
"""Bound of one turn; a slower one is a failure, not a measurement."""

_HOST: Final = "127.0.0.1"


class RestatePeer:
    """A client of one server."""

    def __init__(self, client: httpx.AsyncClient, ingress: str, processes: tuple[int, int]) -> None:
        """Take a server that knows the service already.

        Args:
            client: Sends the requests.
            ingress: The URL at which the server takes invocations.
            processes: The server's and the service's, for their CPU time.
        """
        self._client = client
        self._ingress = ingress
        self._processes = processes

    async def count_tool_runs(self) -> int:
        """Ask the process in which the tools run."""
        return await self._invoke("ToolLog/count")

    async def start_session(self, session_id: str) -> None:
        """A virtual object begins with its first invocation."""

    async def run_turn(self, session_id: str, question: str) -> None:
        """Invoke the session and wait for the answer."""
        answer = await self._invoke(f"Session/{session_id}/run_turn", question)
        if answer != ANSWER:
            raise RuntimeError(f"the answer is {answer!r}")

    async def read_messages(self, session_id: str) -> list[StoredMessage]:
        """Read the session's state."""
        stored = await self._invoke(f"Session/{session_id}/read_messages")
        return [StoredMessage(message["role"], message["text"]) for message in stored]

    async def fill_session(self, session_id: str, turns: int) -> None:
        """Write the state of so many turns at once."""
        await self._invoke(f"Session/{session_id}/fill", turns)

    def read_cpu_seconds(self) -> float | None:
        """Add the server's process and the service's to this one."""
        return read_cpu_seconds(*self._processes)

    async def _invoke(self, path: str, body: object = None) -> Any:
        # A handler without an input refuses a body.
        url = f"{self._ingress}/{path}"
        if body is None:
            answer = await self._client.post(url, timeout=_TURN_SECONDS)
        else:
            answer = await self._client.post(url, timeout=_TURN_SECONDS, json=body)
        if answer.status_code != httpx.codes.OK:
            raise RuntimeError(f"{path} was answered with {answer.status_code}: {answer.text}")
        return answer.json() if answer.content else None


@asynccontextmanager
async def open_peer(server: Path, folder: Path) -> AsyncIterator[TurnPeer]:
    """Run a server on the store in a folder, the service, and a client."""
    ingress, admin, node, service = (f"{_HOST}:{port}" for port in _find_free_ports(4))
    settings = {
        "RESTATE_INGRESS__BIND_ADDRESS": ingress,
        "RESTATE_ADMIN__BIND_ADDRESS": admin,
        "RESTATE_BIND_ADDRESS": node,
        "RESTATE_ADVERTISED_ADDRESS": f"http://{node}",
        "RESTATE_LOG_FILTER": "error",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
    }
    log = folder / "restate.log"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient())
        serve = (sys.executable, "-m", "hypercorn", "benches.compare.restate_service:app", "--bind", service)
        service_process = await stack.enter_async_context(_run_process(serve, {}, log))
        begin = (str(server), "--base-dir", str(folder), "--node-name", "bench")
        server_process = await stack.enter_async_context(_run_process(begin, settings, log))
        try:
            await _register(client, f"http://{admin}", f"http://{service}", (server_process, service_process))
        except RuntimeError as error:
            raise RuntimeError(
                f"{error}\n{log.read_text(encoding='utf-8', errors='replace')[-4000:]}"
            ) from error
        yield RestatePeer(client, f"http://{ingress}", (server_process.pid, service_process.pid))


async def _register(
    client: httpx.AsyncClient, admin: str, service: str, processes: tuple[asyncio.subprocess.Process, ...]
) -> None:
    """Tell a server that has just begun where the service is, as soon as both listen."""
    give_up_at = time.monotonic() + _START_SECONDS
    problem = "it does not listen"
    while time.monotonic() < give_up_at:
        if any(process.returncode is not None for process in processes):
            raise RuntimeError("Restate's server or its service ended")
        try:
            answer = await client.post(f"{admin}/deployments", json={"uri": service}, timeout=_START_SECONDS)
        except httpx.TransportError as error:
            problem = str(error)
        else:
            if answer.is_success:
                return
            problem = answer.text
        await asyncio.sleep(0.05)
    raise RuntimeError(f"Restate's server took no service: {problem}")


@asynccontextmanager
async def _run_process(
    command: tuple[str, ...], settings: Mapping[str, str], log: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **settings}, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise


def _find_free_ports(count: int) -> list[int]:
    # All are held until the last is found, so that none is found twice.
    probes = [socket.create_server((_HOST, 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def main() -> None:
    """Run one plan; see `benches.end_to_end.turns_driver`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", type=Path, required=True, help="the program restate-server")
    add_plan_arguments(parser)
    arguments = parser.parse_args()
    run_plan(lambda folder: open_peer(arguments.server, folder), arguments)


if __name__ == "__main__":
    main()
