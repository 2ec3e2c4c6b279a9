"""What happens next, as pure functions: committed values in, one `SessionChange` out.

No clock, no Step, no I/O: the time is an argument. Begin with `turns`.
"""
