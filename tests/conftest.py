"""Fixtures of the whole suite; those that other backends can use too come from `parqlake.testing`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# These machines are shared and noisy: no test may fail because one example took long.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
settings.register_profile("thorough", settings.get_profile("shared"), max_examples=200)  # of `make test-all`
settings.load_profile("shared")
