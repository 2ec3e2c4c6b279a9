"""Copies the write-ahead log into the database file beside the commits instead of between them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable

from dex_agents.engine.store.database import Synchronous, connect_checkpointer


class Checkpointer:
    """A thread and a connection of their own for one kind of work.

    Commits go on meanwhile, and what they add is left in the log. So a pass is followed by a short one of the
    writer, which finds little to do, and after which the log begins anew.
    """

    def __init__(
        self, path: str, synchronous: Synchronous, on_failure: Callable[[BaseException], None]
    ) -> None:
        """Open the connection.

        Args:
            path: The database file.
            synchronous: As for the writer.
            on_failure: Called on this thread with what a pass failed of; no other pass follows.

        Raises:
            sqlite3.Error: The file cannot be opened.
        """
        self._connection = connect_checkpointer(path, synchronous)
        self._on_failure = on_failure
        self._wanted = threading.Event()
        self._is_done = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name="dex-agents-checkpointer", daemon=True)
        self._thread.start()

    def request(self) -> None:
        """Ask for a pass, unless one is wanted or under way already."""
        self._wanted.set()

    def take_done(self) -> bool:
        """Tell, once, whether a pass has ended."""
        if not self._is_done.is_set():
            return False
        self._is_done.clear()
        return True

    def stop(self) -> None:
        """Let the pass under way end, and close the connection."""
        self._is_stopping = True
        self._wanted.set()
        self._thread.join()
        self._connection.close()

    def _work(self) -> None:
        try:
            while True:
                self._wanted.wait()
                # Cleared first: what is asked for during a pass, a stop above all, is seen after it.
                self._wanted.clear()
                if self._is_stopping:
                    return
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                self._is_done.set()
        except sqlite3.Error as error:
            self._on_failure(error)
