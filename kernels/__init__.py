"""The kernel suite: kernels of Numba, CUDA C++ and Triton, each with a NumPy reference, launches and shape axes.

Mental model: a catalogue. :func:`names` lists it without importing anything heavy; :func:`get`
imports the one module that holds the entry and returns its :class:`~.case.Kernel`.

    case = get("saxpy").make(**get("saxpy").small)
    for launch in case.launches: ...   # capture it, or launch it on a GPU
    case.check()                       # AssertionError unless NumPy agrees
"""

from __future__ import annotations

import importlib
import importlib.util

from .declared import Declared
from .declared import declared as _declared

#: Entry -> compute capability that it needs: wgmma and tcgen05 are of that one alone (or, of tcgen05, its family),
#: clusters and the tensor memory accelerator of that one and later ones.
_NEEDS = {
    "cpp_wgmma_gemm": (9, 0),
    "cpp_fp8_gemm": (9, 0),
    "cpp_wgmma_attention": (9, 0),
    "cpp_stream_k_gemm": (9, 0),
    "cpp_grouped_gemm": (9, 0),
    "cpp_tcgen05_gemm": (10, 0),
    "cpp_nvf4_gemm": (10, 0),
    "cpp_cluster_reduce": (9, 0),
    "cpp_cluster_histogram": (9, 0),
    "cpp_tma_stencil": (9, 0),
    "cpp_paged_decode": (9, 0),
}
#: entry -> module of this package that defines it (in a dict ``KERNELS``), in reading order.
_MODULES = {
    "pointer_chase": "pointer_chase",
    "stream_init": "stream",
    "stream_read": "stream",
    "stream_scale": "stream",
    "stream_triad": "stream",
    "stencil3": "stencil",
    "stencil5": "stencil",
    "l1_stride": "l1_stride",
    "l1_read": "l1_read",
    "l2_read": "l2_read",
    "saxpy": "saxpy",
    "reduce_sum": "reduce_sum",
    "matmul_naive": "matmul",
    "matmul_tiled": "matmul",
    "transpose": "transpose",
    "softmax": "softmax",
    "layernorm": "layernorm",
    "histogram": "histogram",
    "histogram_privatised": "histogram_privatised",
    "spmv_csr": "spmv",
    "spmv_csr_vector": "spmv_vector",
    "spmv_ell": "spmv_ell",
    "nbody": "nbody",
    "scan_block": "scan_block",
    "scan_lookback": "scan_lookback",
    "reduce_last_block": "reduce_last_block",
    "argmax": "argmax",
    "bitonic_sort": "bitonic_sort",
    "radix_sort_step": "radix_sort",
    "compaction": "compaction",
    "stencil2d": "stencil2d",
    "stencil3d": "stencil3d",
    "fft": "fft",
    "monte_carlo": "monte_carlo",
    "mandelbrot": "mandelbrot",
    "bfs": "bfs",
    "jacobi_grid_sync": "jacobi",
    "atomic_contention": "atomic_contention",
    "hgemm_tensor": "hgemm_tensor",
    "igemm_int8": "igemm_int8",
    "row_sums_linked": "linked_cpp",
    # Layers of neural networks.
    "elementwise_fused": "elementwise_fused",
    "gelu": "gelu",
    "silu_mul": "silu_mul",
    "rmsnorm": "rmsnorm",
    "rope": "rope",
    "sgemm_register": "sgemm_register",
    "sgemm_batched": "sgemm_batched",
    "sgemm_split_k": "sgemm_split_k",
    "gemv": "gemv",
    "conv2d_direct": "conv2d_direct",
    "conv2d_implicit_gemm": "conv2d_implicit_gemm",
    "maxpool2d": "pool2d",
    "avgpool2d": "pool2d",
    "embedding_gather": "embedding",
    "scatter_add": "embedding",
    "dequant_int8": "dequantise",
    "dequant_int4": "dequantise",
    "gemv_w4a16": "dequantise",
    "flash_attention": "flash_attention",
    "paged_attention_decode": "paged_attention",
    "topk": "topk",
    "moe_permute": "moe_permute",
    "cross_entropy": "cross_entropy",
    "layernorm_backward": "layernorm_backward",
    "sample_gumbel": "sample_gumbel",
    # CUDA C++.
    "cpp_reduce": "cuda_cpp.primitives",
    "cpp_scan": "cuda_cpp.primitives",
    "cpp_block_sort": "cuda_cpp.primitives",
    "cpp_histogram": "cuda_cpp.primitives",
    "cpp_select": "cuda_cpp.primitives",
    "cpp_reduce_by_key": "cuda_cpp.primitives",
    "cpp_merge": "cuda_cpp.primitives",
    "cpp_sgemm": "cuda_cpp.gemm",
    "cpp_hgemm": "cuda_cpp.gemm",
    "cpp_igemm": "cuda_cpp.gemm",
    "cpp_gemm_w4a16": "cuda_cpp.gemm",
    "cpp_attention": "cuda_cpp.attention",
    "cpp_decode": "cuda_cpp.attention",
    "cpp_mlp": "cuda_cpp.layers",
    "cpp_layernorm": "cuda_cpp.layers",
    "cpp_layernorm_backward": "cuda_cpp.layers",
    "cpp_softmax": "cuda_cpp.layers",
    "cpp_grid_softmax": "cuda_cpp.layers",
    "cpp_causal_conv1d": "cuda_cpp.layers",
    "cpp_stencil3d": "cuda_cpp.grids",
    "cpp_conv2d": "cuda_cpp.grids",
    "cpp_transpose": "cuda_cpp.grids",
    "cpp_spmm": "cuda_cpp.graphs",
    "cpp_bfs": "cuda_cpp.graphs",
    "cpp_triangles": "cuda_cpp.graphs",
    "cpp_components": "cuda_cpp.graphs",
    "cpp_black_scholes": "cuda_cpp.numeric",
    "cpp_cholesky": "cuda_cpp.numeric",
    "cpp_hash_table": "cuda_cpp.numeric",
    "cpp_philox": "cuda_cpp.numeric",
    "cpp_alignment": "cuda_cpp.numeric",
    "cpp_min_plus": "cuda_cpp.shortest_paths",
    # Of clusters and asynchronous units.
    "cpp_stream_k_gemm": "cuda_cpp.stream_k",
    "cpp_grouped_gemm": "cuda_cpp.grouped",
    "cpp_tcgen05_gemm": "cuda_cpp.blackwell",
    "cpp_nvf4_gemm": "cuda_cpp.blackwell_fp4",
    "cpp_cluster_reduce": "cuda_cpp.clusters",
    "cpp_cluster_histogram": "cuda_cpp.clusters",
    "cpp_tma_stencil": "cuda_cpp.tma_grids",
    "cpp_paged_decode": "cuda_cpp.paged",
    "cpp_wgmma_gemm": "cuda_cpp.hopper",
    "cpp_fp8_gemm": "cuda_cpp.hopper_fp8",
    "cpp_wgmma_attention": "cuda_cpp.hopper_attention",
    # Micro-benchmarks: each isolates one parameter of the machine.
    "pipe_latency": "pipe",
    "pipe_throughput": "pipe",
    "shuffle": "shuffle",
    "barrier": "barrier",
    "fence": "fence",
    "bank_conflicts": "bank_conflicts",
    "shared_chase": "shared_chase",
    "tensor_pipe": "tensor_pipe",
    "shared_atomics": "shared_atomics",
    "coalescing": "coalescing",
    "l2_atomics": "l2_atomics",
    "constant_cache": "constant_cache",
    "instruction_cache": "instruction_cache",
    "divergence": "divergence",
    "occupancy_ramp": "occupancy_ramp",
    "local_memory_spill": "local_memory_spill",
}
#: As above, of what is written in Triton, a package that need not be installed.
_TRITON = {
    "triton_softmax": "triton_kernels.rows",
    "triton_layernorm": "triton_kernels.rows",
    "triton_layernorm_backward": "triton_kernels.rows",
    "triton_rmsnorm": "triton_kernels.rows",
    "triton_cross_entropy": "triton_kernels.rows",
    "triton_argmax": "triton_kernels.rows",
    "triton_add": "triton_kernels.elementwise",
    "triton_swiglu": "triton_kernels.elementwise",
    "triton_rotary": "triton_kernels.elementwise",
    "triton_dropout": "triton_kernels.elementwise",
    "triton_embedding": "triton_kernels.elementwise",
    "triton_transpose": "triton_kernels.elementwise",
    "triton_reduce_sum": "triton_kernels.scans",
    "triton_cumsum": "triton_kernels.scans",
    "triton_recurrence": "triton_kernels.scans",
    "triton_sort": "triton_kernels.scans",
    "triton_topk": "triton_kernels.scans",
    "triton_histogram": "triton_kernels.scans",
    "triton_matmul": "triton_kernels.matmul",
    "triton_matmul_split_k": "triton_kernels.matmul",
    "triton_matmul_persistent": "triton_kernels.matmul",
    "triton_grouped_matmul": "triton_kernels.matmul",
    "triton_matmul_int8": "triton_kernels.quantised",
    "triton_matmul_int4": "triton_kernels.quantised",
    "triton_moe_matmul": "triton_kernels.quantised",
    "triton_conv2d": "triton_kernels.quantised",
    "triton_attention": "triton_kernels.attention",
    "triton_attention_backward": "triton_kernels.attention",
    "triton_paged_decode": "triton_kernels.attention",
}


def names() -> list[str]:
    """The names of all entries, in reading order; those in Triton where it is installed."""
    return [*_MODULES, *(() if lacks("triton_add") else _TRITON)]


def needs(name: str) -> tuple[int, int] | None:
    """The compute capability that entry ``name`` needs, below which none runs it; None for one that all run."""
    return _NEEDS.get(name)


def lacks(name: str) -> str:
    """The package that entry ``name`` needs and that is not installed; empty where there is none."""
    return "triton" if name in _TRITON and importlib.util.find_spec("triton") is None else ""


def declared(name: str) -> Declared | None:
    """What the source of entry ``name``'s module says of its shape, without importing it; None where ``name`` is no
    entry, or it is not to be read there."""
    module = _MODULES.get(name) or _TRITON.get(name)
    return None if module is None else _declared(name, module)


def get(name: str):
    """The :class:`~.case.Kernel` called ``name``; KeyError where there is none."""
    try:
        module = _MODULES.get(name) or _TRITON[name]
    except KeyError:
        raise KeyError(f"no kernel called {name!r} in the suite") from None
    return importlib.import_module(f".{module}", __name__).KERNELS[name]
