"""Which of the nightly tests one night runs: all of them are several nights' work.

Mental model: a test's name deals it to one of N nights, and the date says which night it is, so that N nights in a row
run each test once. What draws something new every night, the minutes of damaged files, runs in each.
"""

from __future__ import annotations

import time
import zlib

#: Tests that are of every night: they begin with another seed each time.
EVERY_NIGHT = ("tests/faults/test_fuzz.py::test_a_minute_of_damaged_files_shows_no_fault",)
_DAY_SECONDS = 86_400


def today() -> int:
    """The number of the day, in UTC."""
    return int(time.time()) // _DAY_SECONDS


def runs_tonight(name: str, nights: int, night: int) -> bool:
    """Whether the nightly test ``name``, its node's id, is one of night number ``night`` of ``nights``."""
    return name.startswith(EVERY_NIGHT) or zlib.crc32(name.encode()) % nights == night % nights
