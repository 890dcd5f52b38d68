"""A product and a collective at once on one GPU: how much each slows the other.

Mental model: the product's blocks find the SMs of the collective's channels taken, and its loads queue in DRAM behind
the collective's bytes, and the other way round (:func:`gpusim.tile.grid.run_beside`). Tile and split are those that the
library takes for the product alone: it does not know of the collective. While both run each goes at a share of its own
speed, which is what is given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.gemm import grid_arguments, project_gemm
from gpusim.tile.grid import ALONE, run_beside
from gpusim.tile.machine import tile_machine
from gpusim.tile.product import GemmOp, library_for, shape_of

#: Pieces of a collective in the time of a product that it slows.
_PIECES = 64


@dataclass(frozen=True)
class Shares:
    """Of their own speeds, at which a product and a collective go while both run."""

    product: float
    collective: float


def shares_beside(spec: GpuSpec, op: GemmOp, channels: int, dram_bytes_per_second: float) -> Shares:
    """Of ``op`` beside a collective that holds ``channels`` SMs and moves so many bytes of DRAM a second when alone.
    Raises SpecError where it leaves no SM."""
    if not 1 <= channels < spec.sm_count:
        raise SpecError(
            f"a collective of {channels} channels on {spec.sm_count} SMs of {spec.name} leaves the product none, or is none"
        )
    library, shape, machine = library_for(spec, op), shape_of(op), tile_machine(spec, op.format.operands)
    found = project_gemm(spec, shape, library)
    arguments = grid_arguments(machine, library, shape, found.tile, found.splits, shape.rows, shape.columns)
    alone_cycles = run_beside(*arguments, ALONE)[0]
    piece_cycles = alone_cycles / _PIECES
    beside = np.array([channels, 0.0, piece_cycles, piece_cycles * dram_bytes_per_second / machine.clock_hz])
    cycles, *_, pieces, piece_end = run_beside(*arguments, beside)
    collective = min(1.0, pieces * piece_cycles / piece_end) if pieces else 1.0
    return Shares(min(1.0, alone_cycles / cycles), collective)
