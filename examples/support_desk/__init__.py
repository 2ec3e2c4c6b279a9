"""A support agent over real-looking files, with a refund that must never be sent twice.

`python -m examples.support_desk.demo` tells the story. The data flows one way: `data/` → `file_reader` →
`desk` (what can be asked of the files) → `desk_tools` (the same as tools of an agent) → `desk_model` (a model
made of plain code, so no key is needed) → `agent` → `worker` and `demo`. The payment provider is a process
of its own (`payment_provider`), because what it accepted cannot be taken back.
"""
