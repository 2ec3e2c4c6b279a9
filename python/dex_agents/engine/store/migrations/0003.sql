-- Version 3. What happened to a run, the last failure of a method that is tried again, and runs that follow one
-- that failed.

-- Units of the journal that tell of events, as they were committed but for hard-delete values; `event` is the
-- number of the last one of this run in the unit. In commit order, so that a busy engine appends.
CREATE TABLE history (
    position   INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL,
    event      INTEGER NOT NULL,
    operations BLOB NOT NULL
);
CREATE INDEX history_by_run ON history (run, event);

CREATE TABLE step_failure (
    run     INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    failure BLOB NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;

CREATE TABLE run_chain (
    run          INTEGER PRIMARY KEY,
    attempt      INTEGER NOT NULL,
    first_run_id TEXT NOT NULL,
    begun_at     REAL NOT NULL,
    request      BLOB
);
