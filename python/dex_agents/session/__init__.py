"""The session: one durable Flow under any runner.

`transitions/` decides what happens next (pure), `steps/` touches the world, `rpcs` and `flow` are wiring,
`client` and `worker` are what an application holds. A Step is *load, decide, act, commit*. Nothing here knows
a model, a tool or a framework. Begin with `state` and `transitions/turns`.
"""
