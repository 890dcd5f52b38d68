"""The tile that a library takes by counting waves, as DeepGEMM does.

Mental model: it knows nothing of time. Of all its tiles it takes one that needs the fewest waves of blocks, an SM
holding one; of these one whose last wave is the fullest; of these the narrower of as many rows, or the wider of others
where it lies inside the result. Source: deepseek-ai/DeepGEMM, csrc/jit_kernels/heuristics/common.hpp (get_best_config)
and sm90.hpp.
"""

from __future__ import annotations

from dataclasses import replace

from gpusim.tile.library import Tile

#: Rows of a result from which on two blocks below or beside one another take the larger operand by multicast (the same
#: file).
MULTICAST_ROWS = 512
#: Rows of a result from which on steps wait where all blocks of a large tile run at once: of an H100's rows (learning
#: half) those of 129 to 192 rows take 1.1 us a step with 128 x 192 and 1.4 with 256 x 128, of 193 to 256 2.6 and 2.8.
WAITING_ROWS = 192
#: Of its rows, with which a last tile is called partly filled.
_PARTLY = 0.75


def fewest_waves(tiles: tuple[Tile, ...], rows: int, columns: int, sm_count: int) -> Tile:
    """Of ``tiles``, in the order of the library's search (rows, then columns), for a result of ``rows`` x ``columns``;
    with what its steps cost where all of its blocks run at once."""
    best, best_waves, best_last = tiles[0], 0, 0
    for tile in tiles:
        blocks = -(-rows // tile.rows) * -(-columns // tile.columns)
        waves, last = -(-blocks // sm_count), blocks % sm_count or sm_count
        better = not best_waves or waves < best_waves
        if waves == best_waves:
            better = last > best_last
        if waves == best_waves and last == best_last:
            inside = tile.columns <= columns and tile.rows <= rows
            better = (
                (tile.rows == best.rows and tile.columns < best.columns)
                or (tile.columns == best.columns and tile.rows < best.rows)
                or (tile.rows != best.rows and tile.columns > best.columns and inside)
            )
        if better:
            best, best_waves, best_last = tile, waves, last
    partly = 0 < rows % best.rows <= best.rows * _PARTLY
    if best_waves == 1 and best.one_wave_step_cycles and rows > WAITING_ROWS and not (partly and best.one_wave_full):
        return replace(best, step_cycles=best.one_wave_step_cycles)
    return best
