"""Opening a database file: a new one, one of ours, or a clear refusal."""

# ruff: noqa: S608 - names in statements are constants of this room, values are parameters

from __future__ import annotations

import os
import secrets
import sqlite3
from importlib import resources
from pathlib import Path
from typing import Literal

from dex_agents.errors import EngineDatabaseError

SCHEMA_VERSION = 3
"""Version of the newest migration. `schema.sql` is version 1; `migrations/0002.sql` leads from there to
version 2, and so on. They go forward only."""

APPLICATION_ID = 0x44584147
"""`DXAG`: tells a database of ours from any other SQLite file."""

BUSY_TIMEOUT_SECONDS = 10.0
"""How long a statement waits for another process, such as a backup, to release the file."""

LOG_SIZE_LIMIT_BYTES = 1024 * 1024
"""Size to which the write-ahead log is cut when it starts over."""

Synchronous = Literal["full", "normal"]


def resolve_path(path: str | os.PathLike[str]) -> str:
    """Return the real path of a database file.

    Raises:
        EngineDatabaseError: It names no file, an in-memory database, or a folder that does not exist.
    """
    given = os.fspath(path)
    if not given:
        raise EngineDatabaseError(given, "the path must not be empty")
    if given == ":memory:" or given.startswith("file:"):
        raise EngineDatabaseError(given, "the engine needs a file: an in-memory database is not durable")
    resolved = Path(given).resolve()
    if resolved.is_dir():
        raise EngineDatabaseError(given, "the path is a directory")
    if not resolved.parent.is_dir():
        raise EngineDatabaseError(given, f"the directory {resolved.parent} does not exist")
    return str(resolved)


def connect(path: str, synchronous: Synchronous) -> sqlite3.Connection:
    """Open a database for writing; create its tables if it is new.

    Args:
        path: A path from `resolve_path`.
        synchronous: `full` survives power loss, `normal` the end of the process.

    Raises:
        EngineDatabaseError: The file cannot be read or written, is damaged, belongs to another application or
            was written by a newer version.
    """
    try:
        connection = _connect(path)
        try:
            _judge(path, connection)
            _configure(path, connection, synchronous)
            return connection
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise EngineDatabaseError(path, f"the file cannot be used as a database: {error}") from error


def inspect_database(path: str) -> int:
    """Return the schema version of a database without changing anything.

    Raises:
        EngineDatabaseError: There is no file, it is not a database of ours, or it is of a newer version.
    """
    if not Path(path).exists():
        raise EngineDatabaseError(path, "there is no such file")
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_SECONDS)
        try:
            _judge(path, connection)
            version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise EngineDatabaseError(path, f"the file cannot be used as a database: {error}") from error
    if not version:
        raise EngineDatabaseError(path, "the file is an empty database")
    return version


def connect_reader(path: str) -> sqlite3.Connection:
    """Open a second connection that only reads.

    Raises:
        sqlite3.Error: The file cannot be opened.
    """
    connection = _connect(path)
    connection.execute("PRAGMA query_only=ON")
    return connection


def connect_checkpointer(path: str, synchronous: Synchronous) -> sqlite3.Connection:
    """Open a further connection that copies the log of a database that is open already.

    Raises:
        sqlite3.Error: The file cannot be opened.
    """
    connection = _connect(path)
    connection.execute(f"PRAGMA synchronous={synchronous.upper()}")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    return connection


def _connect(path: str) -> sqlite3.Connection:
    # Threads take turns: a connection is created on one thread and handed over to another for good.
    return sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )


def _judge(path: str, connection: sqlite3.Connection) -> None:
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application_id == APPLICATION_ID:
        if version > SCHEMA_VERSION:
            raise EngineDatabaseError(
                path,
                f"the database has schema version {version}, written by a newer version of dex_agents; "
                f"this one reads up to {SCHEMA_VERSION}",
            )
    elif application_id or version or tables:
        raise EngineDatabaseError(path, "the file is the database of another application")


def _configure(path: str, connection: sqlite3.Connection, synchronous: Synchronous) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise EngineDatabaseError(path, f"the file system does not support WAL (journal mode stays {mode!r})")
    connection.execute(f"PRAGMA synchronous={synchronous.upper()}")
    connection.execute("PRAGMA secure_delete=ON")
    # A checkpoint inside a commit would be the p99 of every caller, so the writer asks for them itself.
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute(f"PRAGMA journal_size_limit={LOG_SIZE_LIMIT_BYTES}")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        _create(connection)
    _migrate(connection)


def _create(connection: sqlite3.Connection) -> None:
    connection.executescript(
        f"BEGIN IMMEDIATE;{_read_sql('schema.sql')}"
        f"INSERT INTO meta VALUES ('database_id', '{secrets.token_hex(4)}'), ('folded', '0');"
        f"PRAGMA application_id={APPLICATION_ID};PRAGMA user_version=1;COMMIT;"
    )


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables to the present version, each step as a whole or not at all."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for following in range(version + 1, SCHEMA_VERSION + 1):
        script = _read_sql(f"migrations/{following:04}.sql")
        try:
            connection.executescript(f"BEGIN IMMEDIATE;{script}PRAGMA user_version={following};COMMIT;")
        except sqlite3.Error:
            connection.rollback()
            raise


def _read_sql(name: str) -> str:
    return resources.files("dex_agents.engine.store").joinpath(name).read_text(encoding="utf-8")
