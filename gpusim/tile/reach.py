"""How far a shape may be from measured ones before its interval no longer holds for it.

Mental model: intervals go by regions of one size (rows, bytes, queries), of which the last has no end, and say nothing
of a shape's other sizes. Where one of these is far beyond all measured ones, the interval is no narrower than that of a
GPU without rows, and is said to lie outside of what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpusim.tile.bands import Band, borrowed_band

#: Most of each size in the rows (ai-dynamo/aiconfigurator, commit 095f58a: all of A100, H100 and B200).
PRODUCT_SIZES = {"rows": 32768, "columns": 65536, "depth": 65536}
ATTENTION_SIZES = {"sequences": 2048, "keys": 131072, "heads": 128, "elements a head": 512}
CONTEXT_SIZES = {"sequences": 256, "queries a sequence": 32768, "heads": 128, "elements a head": 512}
EXPERTS_SIZES = {"tokens": 65536, "hidden elements": 8192, "intermediate elements": 16384, "experts": 896}
#: Times the largest measured size that is still taken for inside: a guess, by what carries within the rows, whose sizes
#: lie up to twice apart. Heads of vocabularies (262,144 columns) are inside.
TIMES = 4


def within_reach(band: Band, operator: str, what: str, measured: Mapping[str, int], *sizes: int) -> Band:
    """``band`` of an ``operator`` of :mod:`gpusim.tile.bands` (``what``: in words), or a wider one that says why where
    one of ``sizes``, in the order of ``measured``, is more than :data:`TIMES` the most that was measured."""
    for (name, most), value in zip(measured.items(), sizes, strict=True):
        if band.validated and value > TIMES * most:
            return borrowed_band(operator, "", band.factor, f"{what} of {value:,} {name} ({most:,} at most)")
    return band
