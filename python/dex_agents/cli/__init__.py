"""The `dex-agents` command: stdout is data, stderr is talk.

Here live the commands (`app`, each imports what it needs when it runs), the chat (`chat`, `turn_follower`,
`event_view`, the prompts), the local tools (`workspace`, `file_tools`, `command_tool`) and the host that
terminals share (`host`, `host_link`). Nothing here decides anything that a program could not do through the
library. Begin with `app`, then `host`.
"""
