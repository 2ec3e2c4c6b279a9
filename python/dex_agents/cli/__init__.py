"""The `dex-agents` command: one module a command, `main` puts them together.

stdout is data, stderr is talk. Nothing here decides anything that a program could not do through the library.
"""
