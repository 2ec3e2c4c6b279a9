"""The local engine: a Dex engine in one process, gRPC in front and SQLite behind.

It serves unmodified `dex` clients and pull Workers, for development, tests and one machine; a Dex Server
takes its place without a change to the program. It imports Dex's protobuf messages and `dex_agents.errors`,
nothing else of this package, and is imported by `testing` and `cli` only.

Begin with `machine`, which decides, and `coordinator`, which applies and commits.
"""

from dex_agents.engine.maintenance import DatabaseReport, backup_database, check_database
from dex_agents.engine.server import LocalEngine, serve
from dex_agents.engine.stats import EngineReport, read_engine_report

__all__ = [
    "DatabaseReport",
    "EngineReport",
    "LocalEngine",
    "backup_database",
    "check_database",
    "read_engine_report",
    "serve",
]
