-- Version 3. What happened to a run, the last failure of a method that is tried again, and runs that follow one
-- that failed.

-- The units that tell of the events of a run; `event` is the number of the last of them in the unit. A unit of one
-- run stays in the journal after it was folded, and `operations` is absent; one of several runs or with a
-- hard-delete value is here, the latter without that.
CREATE TABLE history (
    run        INTEGER NOT NULL,
    event      INTEGER NOT NULL,
    sequence   INTEGER NOT NULL,
    operations BLOB,
    PRIMARY KEY (run, event, sequence)
) WITHOUT ROWID;

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
