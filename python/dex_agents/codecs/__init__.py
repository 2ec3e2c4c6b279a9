"""Bytes to values and back: JSON text as Python spells it, stored attributes, events, healed Unicode.

No decisions and no I/O. The only room that knows the SDK's `Codec` type. Begin with `attributes`.
"""
