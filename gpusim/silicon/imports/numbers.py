"""Numbers and units as profilers print them.

Mental model: a table was printed under one locale, so what a comma or a point means is decided for the whole file:
``1,234.5`` (or ``27.595.520``) shows it, a lone ``1,234`` does not. Where no cell decides, the point is decimal, as in
the "C" locale. Units are scaled to Nsight Compute's base units: nanoseconds, bytes, hertz, cycles.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from gpusim.errors import MeasurementFormatError

_NUMBER = re.compile(r"^[+-]?(?=.*\d)[\d.,'\u00a0\u202f ]*(?:[eE][+-]?\d+)?$")
#: Spaces and apostrophes group digits in some locales and never mean anything else.
_GROUPING = str.maketrans("", "", "'\u00a0\u202f ")

_PREFIXES = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SECONDS = {"n": 1.0, "u": 1e3, "m": 1e6, "": 1e9}  # in nanoseconds
_TIME = re.compile(r"^(n|u|m|)(?:second|s)$")
_COUNTED = "(?:byte|B|cycle|inst|sector|request|warp|block|thread|register)s?"
#: Also what is counted by something else, such as ``Kbyte/block`` of launch__shared_mem_per_block.
_AMOUNT = re.compile(rf"^(K|k|M|G|T|)(?:{_COUNTED}(?:/[a-z]+)?|hz|Hz)$")
_RATE = re.compile(rf"^(K|k|M|G|T|){_COUNTED}/(n|u|m|)(?:second|s)$")


def decimal_mark(cells: Iterable[str]) -> str:
    """ "." or ",": what separates the fraction in these cells. Raises MeasurementFormatError if they contradict."""
    votes: set[str] = set()
    for cell in cells:
        text = cell.strip().translate(_GROUPING)
        if _NUMBER.match(cell.strip()):
            votes |= _vote(text)
    if len(votes) > 1:
        raise MeasurementFormatError("some numbers have a decimal comma, others a decimal point")
    return votes.pop() if votes else "."


def _vote(text: str) -> set[str]:
    mantissa = re.split("[eE]", text)[0]
    points, commas = mantissa.count("."), mantissa.count(",")
    if points and commas:
        return {"." if mantissa.rfind(".") > mantissa.rfind(",") else ","}
    for mark, other, count in ((".", ",", points), (",", ".", commas)):
        if count > 1:
            return {other}  # it groups
        if count == 1 and (
            len(mantissa.partition(mark)[2]) != 3 or mantissa.lstrip("+-").startswith(("0" + mark, mark))
        ):
            return {mark}
    return set()


def number(cell: str, mark: str) -> float | None:
    """The number in a cell, or None if it holds none ("n/a", text, not finite)."""
    text = cell.strip()
    if not _NUMBER.match(text):
        return None
    text = text.translate(_GROUPING)
    text = text.replace("," if mark == "." else ".", "").replace(mark, ".")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def base_factor(unit: str) -> float:
    """What to multiply a value of ``unit`` with to have it in base units; 1 for units that need no scaling."""
    unit = unit.strip()
    if found := _TIME.match(unit):
        return _SECONDS[found[1]]
    if found := _RATE.match(unit):
        return _PREFIXES[found[1]] * 1e9 / _SECONDS[found[2]]
    if found := _AMOUNT.match(unit):
        return _PREFIXES[found[1]]
    return 1.0
