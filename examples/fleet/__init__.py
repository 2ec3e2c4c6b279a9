"""Many sessions on a few Workers, one of which is killed: `python -m examples.fleet`.

Each session is one turn of a small warehouse agent: two reads in parallel, then one write that its receiver
recognises by the idempotency key. Whatever dies, each session ends with exactly one reservation.
"""
