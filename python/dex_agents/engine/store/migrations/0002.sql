-- Version 2. Payloads that nothing refers to any more, and when they may go; runs by the time of their end.
CREATE TABLE garbage (
    number INTEGER PRIMARY KEY,
    due_at REAL NOT NULL
);
CREATE INDEX garbage_by_due ON garbage (due_at);
CREATE INDEX run_by_close ON run (closed_at) WHERE closed_at IS NOT NULL;
-- The highest blob number ever used outlives its blob: a number that came twice would meet stale caches.
INSERT INTO meta VALUES ('last_blob', '0');
