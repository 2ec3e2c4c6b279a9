"""Hypothesis profiles: `fast` by default, `thorough` with `--hypothesis-profile thorough`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Deadlines would measure the machine, not the code.
settings.register_profile("fast", deadline=None, max_examples=150)
settings.register_profile(
    "thorough", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fast")
