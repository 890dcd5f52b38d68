"""The clock that a power limit leaves a launch.

Mental model: a launch takes a power at the described clock: what idles, its operations and its bytes. Above the board's limit the clock falls
until the rest fits, and the dynamic part falls with a power of the clock. The limit acts on launches that last; short ones are over before.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("power.toml")


@dataclass(frozen=True)
class PowerCap:
    """``limit_watts``: of the board; ``flop_joules``, ``byte_joules``: at the described clock. See ``power.toml``."""

    limit_watts: float
    idle_watts: float
    flop_joules: float
    byte_joules: float
    exponent: float
    settle_seconds: float

    def slowed_seconds(self, seconds: float, flops: float, dram_bytes: float) -> float:
        """What a launch of ``seconds`` at the described clock lasts under the limit."""
        dynamic_watts = (self.flop_joules * flops + self.byte_joules * dram_bytes) / seconds
        if self.idle_watts + dynamic_watts <= self.limit_watts:
            return seconds
        clock_share = ((self.limit_watts - self.idle_watts) / dynamic_watts) ** (1.0 / self.exponent)
        held = seconds / (seconds + self.settle_seconds)
        return seconds * (1.0 - held) + seconds / clock_share * held


@functools.cache
def power_cap(gpu: str, generation: str) -> PowerCap | None:
    """The cap of the GPU of that name, or None where none is known."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    limit = table["limit_watts"].get(gpu)
    if limit is None or generation not in table:
        return None
    row = table[generation]
    return PowerCap(
        limit, row["idle_watts"], row["flop_pj"] * 1e-12, row["byte_pj"] * 1e-12, row["exponent"], row["settle_us"] * 1e-6
    )  # fmt: skip
