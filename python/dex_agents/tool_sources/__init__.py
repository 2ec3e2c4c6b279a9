"""Tools that are listed at run time, such as those of a server: what a source is and how its calls find back.

Here live the contract of a source and the router that a runner puts in front of several; sources themselves
live in the rooms of what they speak to. Checking arguments is the business of the runner. Begin with
`contract`, then `router`.
"""
