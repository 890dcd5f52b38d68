"""What PyTorch's eager operations take that a collector of rows puts in front of a product.

Mental model: each operation is a kernel of its own, which reads and writes all elements in FP32; whatever L2 does not
hold goes through DRAM each time. A server of the same framework has one kernel for all of it (SGLang: Triton's
``per_token_quant_int8``), so none of this is projected; rows are only compared with it.
"""

from __future__ import annotations

from dataclasses import replace

from gpusim.gpus.spec import GpuSpec
from gpusim.tile.library import kernels_of
from gpusim.tile.memory import MemoryOp, memory_library_of, project_memory

#: Bytes that each kernel over all elements reads and writes of one: to FP32, absolute value, the row's largest, quotient,
#: rounded, clamped, to int8 (ai-dynamo/aiconfigurator, collector/sglang/collect_gemm.py, per_token_quant_int8).
PASSES = ((2, 4), (4, 4), (4, 0), (4, 4), (4, 4), (4, 4), (4, 1))
#: Kernels over one element a row: the least scale, its 127th part.
_SMALL = 2
#: The largest of a row with its place (ATen/native/cuda/Reduce.cuh): 512 threads take up to 16 rows, a warp each then,
#: but all of them one row where a thread would have 256 elements of it.
_THREADS, _WARP, _MOST_ROWS, _SHARED_FROM = 512, 32, 16, 256
#: Of an H100's rows (450 learning shapes, of which 450 others are 4.4 % off): a kernel of the graph, what a thread of
#: that reduction waits for an element, and before them; shares of DRAM's and L2's described rates that kernels with one
#: load of 16 bytes a thread reach.
_KERNEL_NS, _ELEMENT_NS, _REDUCTION_NS = 1890.0, 92.0, 1290.0
_DRAM_SHARE, _L2_RATE_SHARE = 0.834, 0.417


def eager_int8_seconds(spec: GpuSpec, rows: int, depth: int) -> float:
    """Of ``rows`` x ``depth`` elements of 16 bits to int8, a scale a row, by kernels of a CUDA graph on ``spec``."""
    kernels = replace(
        memory_library_of(kernels_of(spec)),
        launch_ns=_KERNEL_NS,
        start_cycles=0.0,
        dram_share=_DRAM_SHARE,
        l2_rate_share=_L2_RATE_SHARE,
    )
    seconds = 1e-9 * _SMALL * _KERNEL_NS
    for read, written in PASSES:
        elements = float(rows) * depth
        one = project_memory(spec, MemoryOp("copy", read * elements, written * elements), kernels).seconds
        if not written:
            waited = _REDUCTION_NS + _ELEMENT_NS * elements_of_a_thread(rows, depth)
            one = max(one, 1e-9 * (_KERNEL_NS + waited))
        seconds += one
    return seconds


def elements_of_a_thread(rows: int, depth: int) -> float:
    """That a thread of the reduction goes over, one after the other."""
    together = min(_MOST_ROWS, 1 << (rows.bit_length() - 1))
    if depth >= _SHARED_FROM * _WARP:
        return depth / _THREADS
    return depth / min(_THREADS // together, 1 << (depth.bit_length() - 1))
