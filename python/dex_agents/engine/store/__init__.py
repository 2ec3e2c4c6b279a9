"""The database: the only room of the engine that speaks SQL.

`database` opens and judges a file, `writer` appends the journal and folds it into the state tables, `reader`
turns rows back into runs, `search_query` compiles a search expression. Nothing here decides what a Flow does.
"""
