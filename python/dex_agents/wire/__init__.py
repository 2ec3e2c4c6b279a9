"""What is stored and sent: frozen msgspec Structs and closed Literals, nothing else.

Fields only; no I/O and no decisions. Stored spellings are never renamed. A reader ignores fields it does
not know and gives a default to fields that an older writer left out, so Workers of two versions can share
a session; a value whose layout an old reader cannot follow raises its `format` number instead (see
`dex_agents.codecs.attributes`). Begin with `sessions` and `tool_calls`.
"""
