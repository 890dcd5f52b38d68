"""Which published points are simulated by default: few enough for minutes, spread over every regime.

Mental model: a full curve has hundreds of points that say the same thing; the default subset takes the
plateaus, the knees between them and a ramp of occupancies. It is a list of wanted places on the axes;
the published point nearest to each is taken, so that one list serves every GPU. Nothing else in
gpusim knows which points are in it, and ``--all-points`` ignores it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpusim.silicon.published import PublishedPoint

#: L1, its knee, near L2, both L2 halves, the edge of L2, DRAM.
CHASE_BUFFER_KIB = (16, 64, 128, 200, 512, 4096, 16384, 25000, 32768, 49152, 65536, 110000)
#: 1, 2, 4, 8, 16, 32 and 64 warps an SM. Series with two blocks an SM only: 4, 16, and as many as fit.
STREAM_OCCUPANCIES = ((32, 1), (64, 1), (64, 2), (128, 2), (256, 2), (512, 2), (1024, 2))
TWO_BLOCK_OCCUPANCIES = ((64, 2), (256, 2))
#: Few loads a lap, L1, its edge, one and both L2 halves.
L1_FOOTPRINT_KIB = (4, 16, 64, 148, 204, 1152, 8872, 36456)
#: Within L2, at its edge, beyond it.
L2_FOOTPRINT_KIB = (8192, 25600, 40448, 110080)
#: shape and stride (or width): no conflict, bank conflicts, tag conflicts, both.
L1_STRIDES = (
    *(("stride", stride) for stride in (1, 2, 3, 4, 8, 17, 32)),
    *(("block", width) for width in (2, 8, 32)),
)


def default_points(measurements: Sequence[PublishedPoint]) -> list[PublishedPoint]:
    """The default subset of one series on one GPU, in the order given."""
    if not measurements:
        return []
    series = measurements[0].series
    if series == "pointer_chase":
        return _nearest(measurements, "buffer_kib", CHASE_BUFFER_KIB)
    if series == "l1_read":
        return _nearest(measurements, "footprint_kib", L1_FOOTPRINT_KIB)
    if series == "l2_read":
        return _nearest(measurements, "footprint_kib", L2_FOOTPRINT_KIB)
    if series.startswith("l1_stride"):
        return [m for m in measurements if (m.axis("shape"), m.axis("stride")) in L1_STRIDES]
    if {"block_threads", "blocks_per_sm"} <= dict(measurements[0].axes).keys():
        places = [(m.axis("block_threads"), m.axis("blocks_per_sm")) for m in measurements]
        wanted = STREAM_OCCUPANCIES
        if all(blocks == 2 for _, blocks in places):
            wanted = (*TWO_BLOCK_OCCUPANCIES, max(places))
        return [m for m, place in zip(measurements, places, strict=True) if place in wanted]
    return list(measurements)


def _nearest(measurements: Sequence[PublishedPoint], axis: str, wanted: Iterable[float]) -> list[PublishedPoint]:
    """The measurements whose positive ``axis`` is nearest, as a ratio, to one of the wanted values."""
    chosen = {
        min(range(len(measurements)), key=lambda i: abs(math.log(measurements[i].axis(axis) / value)))
        for value in wanted
    }
    return [measurements[i] for i in sorted(chosen)]
