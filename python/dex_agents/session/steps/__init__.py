"""Effects: each Step loads, lets a transition decide, acts, and commits once.

`turn_loading` and `commit` are the two halves that all of them share; `graph` turns what follows into Step
movements. A Step knows no Flow.
"""
