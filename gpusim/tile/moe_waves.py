"""Tiles of experts' products, and of one product, that fill the fewest waves, as DeepGEMM chooses them, and how its
operands are converted within TensorRT-LLM.

Mental model: every expert is taken to have as many rows as the mean one. Of tiles of 64 or 128 rows that width is taken
whose tiles of all experts fill the fewest waves of one block an SM, then the fullest last wave; where the mean expert
has few rows operands are exchanged, so that its rows are the narrow side. Source: TensorRT-LLM,
fp8_blockscale_gemm_kernel.cuh (grouped_gemm_dispatch, fp8_grouped_gemm_run) and DeepGEMM's get_best_gemm_config as it
has it (2025).
"""

from __future__ import annotations

import math

from gpusim.tile.library import Tile

#: Rows of the mean expert from which operands are not exchanged.
EXCHANGED_BELOW = 32
_WIDTHS = range(16, 129, 8)
#: Rows of one product's result from which on two blocks take an operand together (DeepGEMM's get_best_gemm_config as of
#: then).
PAIR_ROWS = 1024
_LARGE_ROWS, _SMALL_ROWS, _DEPTH = 128, 64, 128
#: Results of the largest tile.
WIDEST_OUTPUTS = _LARGE_ROWS * _WIDTHS[-1]
_SHARED_BYTES = 232448
#: Elements of 16 bits that take what a step's 128 of 8 bits do.
STEP_DEPTH = 64
#: Of the kernel that converts operands: warps of an SM's one block, elements that a warp converts together.
_WARPS, _CONVERTED = 8, 128


def wave_tile(
    sm_count: int, mean_rows: int, columns: int, depth: int, experts: int, exchanged_below: int = EXCHANGED_BELOW
) -> Tile:
    """For ``experts`` of ``mean_rows`` each, on ``sm_count`` SMs; ``columns`` and ``depth`` of the product."""
    if mean_rows < exchanged_below:
        side = next(width for width in _WIDTHS if width >= mean_rows)
        return Tile(side, _LARGE_ROWS, STEP_DEPTH, _stages(side, _LARGE_ROWS, depth), 1)
    rows = _SMALL_ROWS if mean_rows <= _SMALL_ROWS else _LARGE_ROWS

    def order(width: int) -> tuple[int, int, int]:
        tiles = -(-mean_rows // rows) * -(-columns // width) * experts
        return -(-tiles // sm_count), -((tiles - 1) % sm_count), width

    width = min(_WIDTHS, key=order)
    return Tile(rows, width, STEP_DEPTH, _stages(rows, width, depth), 1)


def _stages(rows: int, columns: int, depth: int) -> int:
    """Steps of operands of 8 bits that shared memory has room for beside the result and the scales of weights."""
    left = _SHARED_BYTES - 2 * rows * columns - 8 * -(-depth // _DEPTH)
    most = 8 if _LARGE_ROWS % columns == 0 else 6
    return max(1, min(most, left // ((rows + columns) * _DEPTH + 4 * rows + 16)))


def conversion_trips(rows: int, depth: int, sm_count: int) -> int:
    """How often a warp of the kernel that converts ``rows`` of ``depth`` elements waits for a part of a row, one after
    the other."""
    return math.ceil(rows * -(-depth // _CONVERTED) / (_WARPS * sm_count))
