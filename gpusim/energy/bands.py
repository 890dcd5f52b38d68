"""How sure an energy is: by what takes most of it.

Mental model: an energy errs by its time's factor and by its power's, which is meant here. ``errors.json`` (written by
``tools/energy_error.py --record``) keeps the factor that holds four of five measured operators that set nothing, given
their measured time, by the unit that takes most. A generation without measurements takes the widest, and says so.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("errors.json")
LEVEL_PERCENT = 80
#: What takes most: tensor cores, DRAM, or neither of them.
REGIONS = ("tensor cores", "DRAM", "rest")
#: Where nothing was measured at all: a guess.
_UNKNOWN_FACTOR = 1.5


@dataclass(frozen=True)
class EnergyBand:
    """``factor``: four of five measurements lie within the energy over and times it."""

    factor: float
    validated: bool
    reason: str


def region_of(tensor_joules: float, dram_joules: float, joules: float) -> str:
    """What takes most of an operator's energy: above a third of it."""
    if max(tensor_joules, dram_joules) < joules / 3.0:
        return "rest"
    return "tensor cores" if tensor_joules >= dram_joules else "DRAM"


def energy_band(generation: str, tensor_joules: float, dram_joules: float, joules: float) -> EnergyBand:
    """The band of an operator with that energy on a GPU of the generation."""
    return _band(generation, region_of(tensor_joules, dram_joules, joules))


@functools.cache
def _band(generation: str, region: str) -> EnergyBand:
    known = json.loads(_FILE.read_text(encoding="utf-8"))["generations"]
    row = known.get(generation, {}).get(region)
    if row:
        reason = f"{row['rows']} measured operators with most energy in: {region}, on {known[generation]['gpu']}, none of them used for fitting"
        return EnergyBand(row["factor"], True, reason)
    factors = [each[region]["factor"] for each in known.values() if region in each]
    widest = max([_UNKNOWN_FACTOR, *factors])
    return EnergyBand(widest, False, f"not validated: no measured power of the {generation} generation")
