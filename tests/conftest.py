"""What all tests share: the Hypothesis profiles, and a home for caches that no user's files enter.

``HYPOTHESIS_PROFILE=nightly`` draws many more, different examples; the default ``ci`` profile always
draws the same ones, so that a red run is red for everybody.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    max_examples=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("nightly", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
