"""`dex-agents engine`: the local engine as a process of its own, and work on its database."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dex_agents.errors import EngineError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

EXIT_OK = 0
EXIT_DAMAGED = 1
"""`check` found a problem."""

EXIT_REFUSED = 2
"""Bad usage, an unusable or used database, an unusable address, or a database that cannot be written any
more."""

_DAMAGE_NOTE = "a damaged file is best replaced by its last backup"


def add_engine_command(subparsers: Subparsers) -> None:
    """Add the `engine` command to a command line.

    The parsed arguments carry a function `run`, which takes them and returns the exit status.
    """
    parser = subparsers.add_parser(
        "engine",
        help="run the local engine, or work on its database",
        description="Run the local engine until SIGINT or SIGTERM. Prints one line with its address when"
        " it serves; logs go to stderr. Without a token whoever reaches the address is served.",
    )
    parser.add_argument("--data", metavar="FILE", help="the database file; created if missing")
    parser.add_argument(
        "--listen", metavar="ADDRESS", help="HOST:PORT (port 0 lets the system choose) or unix:/PATH"
    )
    parser.add_argument(
        "--synchronous",
        choices=("full", "normal"),
        default="full",
        help="full (the default) survives a loss of power, normal the end of the process",
    )
    parser.add_argument(
        "--runs-in-memory", type=int, metavar="N", help="runs kept in memory for their use alone (4096)"
    )
    parser.add_argument(
        "--retention-days",
        type=float,
        metavar="DAYS",
        help="how long a run is kept after it closed; by default for ever",
    )
    parser.add_argument(
        "--history-events", type=int, metavar="N", help="history events kept a run; 0 records none (1000)"
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="a file with the bearer token to ask clients for"
    )
    parser.add_argument(
        "--drain-seconds",
        type=float,
        default=5.0,
        metavar="S",
        help="how long a stop lets running Steps be answered (5)",
    )
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="how logs are spelled")
    parser.set_defaults(run=run_engine, usage=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    backup = commands.add_parser(
        "backup",
        help="copy a database while its engine runs",
        description="Copy a database as it is at one moment, while its engine runs or not.",
    )
    backup.add_argument("source", metavar="SRC", help="the database file")
    backup.add_argument("destination", metavar="DEST", help="the copy; nothing may be there")
    backup.set_defaults(run=run_backup)
    check = commands.add_parser(
        "check",
        help="read a whole database and tell what is wrong with it",
        description="Read a whole database as an engine would. Exit status 1 if something is wrong with it.",
    )
    check.add_argument("file", metavar="FILE", help="the database file")
    check.set_defaults(run=run_check)
    stats = commands.add_parser(
        "stats",
        help="ask a running engine how it fares",
        description="Print runs, waits, queues and commit latency of a running engine as JSON. Steps, RPCs"
        " and commits a second are measured between two questions.",
    )
    stats.add_argument("address", metavar="ADDRESS", help="where the engine listens")
    stats.add_argument("--seconds", type=float, default=1.0, help="time between the two questions (1)")
    stats.add_argument(
        "--token-file", type=Path, metavar="FILE", help="a file with the engine's bearer token"
    )
    stats.set_defaults(run=run_stats)


def run_engine(arguments: argparse.Namespace) -> int:
    """Run the engine and return the exit status."""
    missing = [name for name in ("data", "listen") if getattr(arguments, name) is None]
    if missing:
        usage: argparse.ArgumentParser = arguments.usage
        usage.error(f"the following arguments are required: {', '.join(f'--{name}' for name in missing)}")
    handler = logging.StreamHandler(sys.stderr)
    if arguments.log_format == "json":
        handler.setFormatter(JsonFormatter())
        logging.basicConfig(handlers=[handler], level=logging.INFO)
    else:
        line = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        logging.basicConfig(handlers=[handler], level=logging.INFO, format=line)
    try:
        with asyncio.Runner(loop_factory=_find_loop_factory()) as runner:
            runner.run(_serve(arguments))
    except (EngineError, ValueError, OSError) as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return EXIT_OK
    return EXIT_OK


def run_backup(arguments: argparse.Namespace) -> int:
    """Back a database up and return the exit status."""
    from dex_agents.engine import backup_database

    try:
        backup_database(arguments.source, arguments.destination)
    except EngineError as error:
        return _refuse(error)
    return EXIT_OK


def run_check(arguments: argparse.Namespace) -> int:
    """Check a database, print what was found and return the exit status."""
    from dex_agents.engine import check_database

    try:
        report = check_database(arguments.file)
    except EngineError as error:
        return _refuse(error)
    print(
        json.dumps(
            {
                "schema_version": report.schema_version,
                "runs": report.runs,
                "journal_units": report.journal_units,
                "problems": report.problems,
            },
            indent=2,
        )
    )
    if report.problems:
        print(f"dex-agents engine: {len(report.problems)} problems; {_DAMAGE_NOTE}", file=sys.stderr)
        return EXIT_DAMAGED
    return EXIT_OK


def run_stats(arguments: argparse.Namespace) -> int:
    """Print the reports of a running engine and return the exit status."""
    try:
        print(json.dumps(asyncio.run(_measure(arguments)), indent=2))
    except (EngineError, ValueError, OSError) as error:
        return _refuse(error)
    return EXIT_OK


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time` (Unix seconds), `level`, `logger`, `message`, `error` with a trace."""

    def format(self, record: logging.LogRecord) -> str:
        """Spell a record."""
        entry: dict[str, object] = {
            "time": round(record.created, 6),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def _find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    # For the engine alone, which starts no process and holds no gRPC channel. A Worker does both, and there
    # uvloop's way of starting a process hangs now and then.
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(arguments: argparse.Namespace) -> None:
    # Imported here: gRPC takes a noticeable part of a second, which `dex-agents --help` need not pay.
    from dex_agents.engine import serve
    from dex_agents.engine.runs import RUNS_IN_MEMORY
    from dex_agents.engine.store.writer import HISTORY_EVENTS

    until = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, until.set)
    days = arguments.retention_days
    with contextlib.suppress(BrokenPipeError):
        await serve(
            arguments.data,
            listen=arguments.listen,
            synchronous=arguments.synchronous,
            runs_in_memory=RUNS_IN_MEMORY if arguments.runs_in_memory is None else arguments.runs_in_memory,
            retention=None if days is None else timedelta(days=days),
            history_events=HISTORY_EVENTS if arguments.history_events is None else arguments.history_events,
            token=_read_token(arguments.token_file),
            drain=timedelta(seconds=arguments.drain_seconds),
            on_ready=lambda address: print(f"dex-agents engine: listening on {address}", flush=True),
            until=until,
        )


async def _measure(arguments: argparse.Namespace) -> dict[str, object]:
    import msgspec

    from dex_agents.engine import read_engine_report

    token = _read_token(arguments.token_file)
    first = await read_engine_report(arguments.address, token)
    await asyncio.sleep(max(0.0, arguments.seconds))
    second = await read_engine_report(arguments.address, token)
    seconds = max(second.uptime_seconds - first.uptime_seconds, 1e-3)
    rates: dict[str, object] = {
        f"{name}_per_second": round((getattr(second, name) - getattr(first, name)) / seconds, 1)
        for name in ("steps", "rpcs", "commits")
    }
    return rates | msgspec.structs.asdict(second)


def _read_token(path: Path | None) -> str | None:
    return None if path is None else path.read_text(encoding="utf-8").strip()


def _refuse(error: Exception) -> int:
    print(f"dex-agents engine: {error}", file=sys.stderr)
    return EXIT_REFUSED
