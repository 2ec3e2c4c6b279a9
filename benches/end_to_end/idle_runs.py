"""Fills a database with runs that wait for a message, and tells what starting an engine on them takes.

    python -m benches.end_to_end.idle_runs FILE

as a process of its own: starts an engine on FILE, prints the seconds until it served and its memory as one
line of JSON, and ends.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine import LocalEngine
from dex_agents.engine.machine import apply_wait_for_result, start_run
from dex_agents.engine.state import Run
from dex_agents.engine.store.database import resolve_path
from dex_agents.engine.store.writer import StoreWriter
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import BlobNumbers

__all__ = ["fill_database", "read_memory"]

ATTRIBUTES = 12
_BATCH = 500


def fill_database(path: Path, count: int, flow_type: str, step_type: str, channel: str) -> None:
    """Write runs whose start Step waits for one message, each with the Attributes of a small session."""
    writer = StoreWriter(resolve_path(path), "normal")
    numbers = BlobNumbers(writer.database_id, writer.last_blob)
    now, sequence = time.time(), writer.last_sequence
    wait = pb.InvokeWaitForMethodResponse(
        waiting_condition=pb.WaitingCondition(
            waiting_condition_type=pb.WAITING_CONDITION_TYPE_ALL_COMPLETED,
            channel_conditions=[pb.ChannelCondition(channel_name=channel, at_least=1, at_most=1)],
        )
    )
    request = pb.StartFlowRequest(
        flow_type=flow_type, start_step_type=step_type, step_input=pb.Value(int_value=1)
    )
    for number in range(ATTRIBUTES):
        attribute = request.flow_start_options.attributes.add(key=f"attribute-{number}")
        attribute.value.string_value = "x" * 100
    units: list[Unit] = []
    for number in range(1, count + 1):
        run = Run(
            number=number,
            run_id=f"idle-run-{number}",
            flow_id=f"idle-{number}",
            flow_type=flow_type,
            request_id="",
            started_at=now,
            config=pb.FlowConfig(),
        )
        unit = Unit(numbers, {})
        start_run(run, request, unit, now)
        apply_wait_for_result(run, next(iter(run.executions.values())), wait, unit, now)
        units.append(unit)
        if len(units) == _BATCH or number == count:
            writer.append([(sequence + place, each.operations) for place, each in enumerate(units, 1)], ())
            writer.fold()
            sequence += len(units)
            units = []
    writer.purge_log()
    writer.close()


def read_memory(process: int | str = "self") -> float:
    """Return the resident memory of a process in megabytes."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


async def _start(path: str) -> None:
    before, begun = read_memory(), time.perf_counter()
    async with LocalEngine(path):
        seconds = time.perf_counter() - begun
        print(json.dumps({"seconds": seconds, "megabytes": read_memory() - before}), flush=True)


if __name__ == "__main__":
    asyncio.run(_start(sys.argv[1]))
