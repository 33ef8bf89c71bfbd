"""Fixtures of the whole suite; those that other backends can use too come from `parqlake.testing`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# These machines are shared and noisy: no test may fail because one example took long.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")
