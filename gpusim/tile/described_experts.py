"""TensorRT-LLM's experts in 16 bits on a GPU of a generation that no table names: worked out from its description.

Mental model: what a framework launches around products (sorting choices, expanding rows, activating, adding up) are
times that its software has on every GPU alike, and another generation's rows say them; the grouped products are what
the GPU's description says of its dense ones (:mod:`gpusim.tile.described`), but that grouped kernels never split the
depth. Kernels of warps differ in one thing more: TensorRT-LLM's have warps of half as many results as cuBLAS's, and
one set of registers for their operands, so that a step's products and what shared memory reads for them take turns.
Kernels of warp groups have no small tiles.
"""

from __future__ import annotations

from dataclasses import replace

from gpusim.gpus.spec import GpuSpec
from gpusim.tile.described import Constants, constants_of, described_library, operand_cycles
from gpusim.tile.library import Library, Tile, mean_rates, multiplies_by_warps
from gpusim.tile.machine import tile_machine
from gpusim.tile.moe_library import MoeLibrary, moe_library_of

#: Results of a warp: 64 x 32 (TensorRT-LLM, cutlass_heuristic.cpp, get_candidate_tiles: WarpShape64x32x64 of most tiles
#: for warps). That its products and loads take turns is read off an A100's rows, the only ones of such kernels: however
#: large the launch no row of 1.0.0 reaches more than 160 of 312 TFLOP/s, and 128 x 128 in turns comes to 0.53, 64 x 128
#: to 0.47 (searched: 0.38 to 0.5).
_WARP_OUTPUTS = 2048
#: Into how many parts grouped kernels split the depth (TensorRT-LLM, moe_gemm_template_dispatch.h: max_split_k of their
#: candidates is 1).
_PARTS = 1.0
#: Results of the smallest tile of warp groups: grouped kernels are compiled for 128 by 16 to 256, and 256 by 128
#: (TensorRT-LLM, cutlass_heuristic.cpp, get_candidate_tiles_sm90), of which 16 is three to five times as slow as what
#: the tuner takes (moe.toml, kernels.cutlass_first). That 32 is not taken either is read off an H100's rows: 158
#: learning rows of tuned runs are 10.8 % off from 64 on, 12.1 with the narrow ones and their boxes, 13.2 by dense
#: products' tiles.
_LEAST_GROUP_OUTPUTS = 128 * 64
#: The framework that was measured so on two generations.
DESCRIBED_FRAMEWORK = "trtllm"


def described_experts(spec: GpuSpec, whose: str, constants: Constants | None = None) -> MoeLibrary:
    """Experts in 16 bits by TensorRT-LLM's kernels on ``spec``, with what the rows of generation ``whose`` say of its
    software; ``constants``: of described products (those of all measured rows)."""
    around = moe_library_of(whose, "bf16", DESCRIBED_FRAMEWORK)
    products = replace(described_library(spec, constants or constants_of()), most_splits=_PARTS)
    if multiplies_by_warps(spec):
        products = replace(products, **_rates_in_turns(spec, products))
    elif not spec.tensor_memory.columns_per_cycle:
        tiles = tuple(tile for tile in products.tiles if tile.outputs >= _LEAST_GROUP_OUTPUTS)
        products = replace(products, tiles=tiles)
    return replace(around, product=replace(products, launch_ns=around.product.launch_ns), clock_mhz=0.0)


def _rates_in_turns(spec: GpuSpec, products: Library) -> dict[str, float]:
    flops_per_cycle = tile_machine(spec, "bf16").flops_per_cycle

    def share(tile: Tile) -> float:
        work_cycles = 2.0 * tile.outputs * tile.depth / flops_per_cycle
        return work_cycles / (work_cycles + operand_cycles(tile, _WARP_OUTPUTS))

    return mean_rates(products.tiles, share)
