"""The contract between a session and the framework that thinks for it.

A session owns Steps, storage, approvals and recovery; a runner makes one model call from committed state and
runs one tool call. Here live the contract (`contract`), what a model call leads to (`outcomes`), what a
runner is given (`turn_context`) and how it speaks while it works (`event_writer`). No runner lives here.
"""
