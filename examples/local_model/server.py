"""The process of the model: llama.cpp's own HTTP server, on the loopback interface.

It runs in an environment of its own, which has `xllamacpp` and nothing of this package: what the two say to
each other is HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

from examples.child_process import announce, stop_requested

__all__ = ["MODEL_NAME"]

MODEL_NAME: Final = "local"
"""What the server calls the model."""

_CONTEXT_TOKENS: Final = 8192
_TEMPLATE: Final = Path(__file__).with_name("chat_template.jinja")


def _start_server(weights: Path, threads: int) -> Any:
    # No tool of the house can see this package: it is installed in the environment of the server alone.
    llama: Any = import_module("xllamacpp")
    parameters = llama.CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {MODEL_NAME}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = _CONTEXT_TOKENS
    parameters.n_parallel = 2
    parameters.kv_unified = True
    parameters.use_jinja = True
    # The template that is built in makes the model write its calls in a form that the server does not read.
    parameters.chat_template = _TEMPLATE.read_text(encoding="utf-8")
    parameters.ui = False
    parameters.offline = True
    parameters.verbosity = 1
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    return llama.Server(parameters)


async def _serve(weights: Path, threads: int) -> None:
    async with stop_requested() as stopping:
        # Loading takes seconds, in which the parent may end.
        server = await asyncio.to_thread(_start_server, weights, threads)
        announce(address=server.listening_address)
        await stopping.wait()


def main(arguments: list[str] | None = None) -> NoReturn:
    """Serve until the parent ends or says so."""
    parser = argparse.ArgumentParser(prog="python -m examples.local_model.server")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=min(8, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    asyncio.run(_serve(options.weights, options.threads))
    # The server's own threads never end.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
