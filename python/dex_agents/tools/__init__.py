"""What tools are to a session: effects and policies, and what a finished call says to the model.

Where tools come from is the business of the rooms that offer them (`builtin_loop`, later `mcp` and
`connectors`). Begin with `effects`.
"""
