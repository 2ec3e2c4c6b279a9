-- Version 1. State tables are folded from the journal; nothing else writes them.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One row a committed unit, in commit order, until it is folded into the tables below.
CREATE TABLE journal (
    sequence   INTEGER PRIMARY KEY,
    operations BLOB NOT NULL
);

-- Payloads too large for state, written with the unit that refers to them and never changed.
CREATE TABLE blob (
    number  INTEGER PRIMARY KEY,
    kind    TEXT NOT NULL,
    payload BLOB NOT NULL
);

CREATE TABLE run (
    run             INTEGER PRIMARY KEY,
    run_id          TEXT NOT NULL UNIQUE,
    flow_id         TEXT NOT NULL,
    flow_type       TEXT NOT NULL,
    request_id      TEXT NOT NULL,
    started_at      REAL NOT NULL,
    config          BLOB NOT NULL,
    search_mode     INTEGER NOT NULL,
    timeout_at      REAL,
    timeout_policy  INTEGER NOT NULL,
    timeout_options BLOB NOT NULL,
    status          INTEGER NOT NULL,
    closed_at       REAL,
    error_type      INTEGER NOT NULL,
    error_message   TEXT NOT NULL,
    is_completing   INTEGER NOT NULL
);
CREATE INDEX run_by_flow ON run (flow_id, run);
CREATE INDEX run_by_start ON run (started_at, run);
CREATE INDEX run_open ON run (status) WHERE status = 1;

CREATE TABLE attribute (
    run   INTEGER NOT NULL,
    key   TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (run, key)
) WITHOUT ROWID;

-- Values that must leave the disk when they are deleted; never in a blob.
CREATE TABLE secret_attribute (
    run   INTEGER NOT NULL,
    key   TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (run, key)
) WITHOUT ROWID;

-- `content` is one searchable word, element or scalar; row 0 also holds the value that search results show.
CREATE TABLE index_value (
    run       INTEGER NOT NULL,
    key       TEXT NOT NULL,
    position  INTEGER NOT NULL,
    attribute TEXT NOT NULL,
    content,
    value     BLOB,
    PRIMARY KEY (run, key, position)
) WITHOUT ROWID;
CREATE INDEX index_value_by_content ON index_value (key, content);

CREATE TABLE channel_message (
    run        INTEGER NOT NULL,
    channel    TEXT NOT NULL,
    sequence   INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    value      BLOB NOT NULL,
    PRIMARY KEY (run, channel, sequence)
) WITHOUT ROWID;

-- Active executions only: what is listed here is what `ActiveStepTypes` searches.
CREATE TABLE step (
    run          INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    execution_id TEXT NOT NULL,
    step_type    TEXT NOT NULL,
    has_wait     INTEGER NOT NULL,
    due_at       REAL NOT NULL,
    movement     BLOB NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE INDEX step_by_type ON step (step_type, run);

CREATE TABLE step_progress (
    run              INTEGER NOT NULL,
    number           INTEGER NOT NULL,
    phase            TEXT NOT NULL,
    attempt          INTEGER NOT NULL,
    is_started       INTEGER NOT NULL,
    first_attempt_at REAL NOT NULL,
    due_at           REAL NOT NULL,
    condition        BLOB,
    timers           BLOB NOT NULL,
    locals           BLOB NOT NULL,
    results          BLOB,
    heartbeat        BLOB,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;

CREATE TABLE counter (
    run   INTEGER NOT NULL,
    name  TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;

CREATE TABLE output (
    run      INTEGER NOT NULL,
    position INTEGER NOT NULL,
    output   BLOB NOT NULL,
    PRIMARY KEY (run, position)
) WITHOUT ROWID;

-- A group is a stream of a Flow type: its capacity is shared by all Flow IDs.
CREATE TABLE stream_group (
    stream_group INTEGER PRIMARY KEY,
    flow_type    TEXT NOT NULL,
    name         TEXT NOT NULL,
    capacity     INTEGER NOT NULL
);

CREATE TABLE stream (
    stream       INTEGER PRIMARY KEY,
    stream_group INTEGER NOT NULL,
    flow_id      TEXT NOT NULL
);

-- AUTOINCREMENT: a sequence is a resume token, so it must never be used again, not even after trimming.
CREATE TABLE stream_message (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    stream_group INTEGER NOT NULL,
    stream       INTEGER NOT NULL,
    created_at   REAL NOT NULL,
    source       TEXT NOT NULL,
    value        BLOB NOT NULL,
    size         INTEGER NOT NULL
);
CREATE INDEX stream_message_by_stream ON stream_message (stream, sequence);
CREATE INDEX stream_message_by_group ON stream_message (stream_group, sequence);

CREATE TABLE index_type (
    key  TEXT PRIMARY KEY,
    type INTEGER NOT NULL
) WITHOUT ROWID;
