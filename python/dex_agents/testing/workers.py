"""A Worker as a process that a test can kill."""

from __future__ import annotations

from collections.abc import Sequence

from dex_agents.testing.processes import ChildProcess

__all__ = ["WorkerProcess"]


class WorkerProcess(ChildProcess):
    """Serves one session Flow in a process of its own.

    As an async context it is killed at the end::

        async with WorkerProcess("my_app.agent:create_flow", server_address=address) as worker:
            ...
            await worker.kill()      # in the middle of whatever it does
            await worker.start()     # another process with the same code

    Durability:
        A killed Worker loses at most the calls that it was running; the engine hands their Steps to the next.
    """

    def __init__(
        self,
        factory: str,
        *,
        server_address: str,
        arguments: Sequence[str] = (),
        max_concurrent_tasks: int = 32,
        start_timeout: float = 60.0,
    ) -> None:
        """Say what to run; nothing is started yet.

        Args:
            factory: `package.module:name` of a function that returns the `AgentSessionFlow`; it is imported
                and called in the new process.
            server_address: The engine's.
            arguments: Text to call the function with, such as the folder of gates and logs.
            max_concurrent_tasks: See `AgentWorker`.
            start_timeout: Seconds until the engine must have taken the Worker in.

        Raises:
            InvalidInputError: `start_timeout` is not more than 0.
        """
        super().__init__(f"the Worker of {factory}", start_timeout=start_timeout)
        self._command = (
            "-m",
            "dex_agents.testing.worker_main",
            "--server-address",
            server_address,
            "--max-concurrent-tasks",
            str(max_concurrent_tasks),
            "--",
            factory,
            *arguments,
        )

    def _arguments(self) -> Sequence[str]:
        return self._command
