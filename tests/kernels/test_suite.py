"""Every kernel of the suite, captured with no GPU, leaves NumPy's result in its arrays."""

from __future__ import annotations

import inspect
import re
import runpy
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from turing import BEYOND_TURING, BEYOND_VOLTA

from gpusim.capturing import capture
from gpusim.cases.names import general_names, suite
from gpusim.cases.suite import find_kernel
from gpusim.errors import CompileError, UnknownKernelError
from gpusim.isa.architectures import SURVEYED
from gpusim.launch.memory import DeviceMemory

pytestmark = pytest.mark.usefixtures("without_source_lines")

#: Those in Triton have a file of their own: test_triton_kernels.py.
NAMES = [name for name in general_names() if not name.startswith("triton_")]
EVERYDAY = ("sm_80", "sm_90")
#: sm_70 takes the assembler of CUDA 12, which an extra brings.
FURTHER = ("sm_70", *(row.name for row in SURVEYED if row.name not in EVERYDAY))

#: Entries whose ``make`` works something out before it refuses a shape: their source tells little of it.
COMPUTED = {"embedding_gather", "scatter_add", "dequant_int4", "gemv_w4a16", "cpp_sgemm", "cpp_hgemm", "cpp_mlp"}
#: A second shape each: sizes that are no multiple of the block, other branches of the kernel.
ODD_SHAPES = {
    "pointer_chase": {"buffer_kib": 5.3, "loads": 1001},
    "stream_init": {"n": 999, "block_threads": 48, "blocks_per_sm": 1},
    "stream_read": {"n": 33, "block_threads": 16, "blocks_per_sm": 1},
    "stream_scale": {"n": 1, "block_threads": 1024, "blocks_per_sm": 0},
    "stream_triad": {"n": 4097, "block_threads": 1024, "blocks_per_sm": 2},
    "stencil3": {"n": 3, "block_threads": 32, "blocks_per_sm": 4},
    "stencil5": {"n": 777, "block_threads": 80, "blocks_per_sm": 1},
    "l1_stride": {
        "pattern": "stride",
        "width_or_stride": 33,
        "dtype": "float32",
        "block_threads": 1024,
        "iterations": 6,
    },
    "l1_read": {"footprint_kib": 0.5, "window_kib": 0, "laps": 2, "blocks": 3, "block_threads": 512, "rounds_apart": 0},
    "l2_read": {"footprint_kib": 96, "bytes_per_block_kib": 48, "blocks": 5, "block_threads": 1024},
    "saxpy": {"n": 1, "block_threads": 32},
    "reduce_sum": {"n": 333, "block_threads": 1, "blocks": 3},
    "matmul_naive": {"m": 1, "n": 37, "k": 5, "block_x": 3, "block_y": 7},
    "matmul_tiled": {"m": 37, "n": 1, "k": 70, "tile": 5},
    "transpose": {"rows": 1, "columns": 99, "rows_per_block": 32, "padding": 0},
    "softmax": {"rows": 3, "columns": 17, "block_threads": 32},
    "layernorm": {"rows": 1, "columns": 1, "block_threads": 32},
    "histogram": {"n": 2001, "spread": 1 / 256, "block_threads": 320, "blocks": 2},
    "spmv_csr": {"rows": 33, "mean_row_length": 3, "skew": 0.4, "block_threads": 32},
    "nbody": {"n": 65, "block_threads": 32},
    "histogram_privatised": {"n": 1000, "spread": 1 / 256, "block_threads": 32, "blocks": 3},
    "spmv_csr_vector": {"rows": 33, "mean_row_length": 3, "skew": 0.4, "block_threads": 32},
    "spmv_ell": {"rows": 33, "mean_row_length": 3, "skew": 0.0, "block_threads": 48},
    "scan_block": {"n": 1, "block_threads": 32},
    "scan_lookback": {"n": 4098, "block_threads": 32},
    "reduce_last_block": {"n": 5, "block_threads": 32, "blocks": 40},
    "argmax": {"n": 999, "distinct": 1, "block_threads": 32, "blocks": 5},
    "bitonic_sort": {"n": 64, "block_threads": 32},
    "radix_sort_step": {"n": 129, "shift": 28, "block_threads": 32},
    "compaction": {"n": 1001, "selectivity": 1.0, "block_threads": 32},
    "stencil2d": {"rows": 9, "columns": 33, "block_y": 4},
    "stencil3d": {"depth": 3, "rows": 3, "columns": 35, "block_y": 1},
    "fft": {"n": 256, "batches": 1},
    "monte_carlo": {"draws": 1, "block_threads": 32, "blocks": 3},
    "mandelbrot": {"rows": 10, "columns": 33, "limit": 40, "block_x": 32, "block_y": 3},
    "bfs": {"vertices": 90, "mean_degree": 2, "skew": 0.0, "block_threads": 32},
    "jacobi_grid_sync": {"rows": 3, "columns": 70, "sweeps": 2, "block_threads": 64, "blocks": 4},
    "atomic_contention": {"form": "float32_add", "addresses": 33, "updates": 3, "blocks": 1},
    "hgemm_tensor": {"m": 17, "n": 136, "k": 8, "depth": 8},
    "igemm_int8": {"m": 33, "n": 7, "k": 144},
    "row_sums_linked": {"rows": 41, "block_threads": 64},
    "pipe_latency": {"op": "mufu_sin", "rounds": 1},
    "pipe_throughput": {"op": "hfma2", "rounds": 1},
    "shuffle": {"mode": "down", "amount": 16, "chains": 4, "rounds": 1},
    "barrier": {"rounds": 1, "block_threads": 33, "blocks": 1},
    "fence": {"rounds": 1, "block_threads": 96, "fencing": 2, "lines": 0, "blocks": 2},
    "bank_conflicts": {"access": "store", "stride": 3, "width_bytes": 16, "block_threads": 40},
    "shared_chase": {"step": 32, "rounds": 1, "block_threads": 33},
    "tensor_pipe": {"shape": "m8n8k16_s8", "chains": 1, "rounds": 3, "block_threads": 32},
    "shared_atomics": {"dtype": "int64", "addresses": 33, "block_threads": 80, "blocks": 1},
    "coalescing": {"access": "store", "pattern": "permuted", "amount": 7},
    "l2_atomics": {"dtype": "int32", "returning": False, "stride": 0, "block_threads": 33},
    "constant_cache": {"table_bytes": 4096, "addresses": 32, "rounds": 5, "block_threads": 32},
    "instruction_cache": {"body_instructions": 4, "rounds": 3, "block_threads": 48},
    "divergence": {"paths": 32, "rounds": 1, "block_threads": 33},
    "occupancy_ramp": {"blocks_per_sm": 0, "block_threads": 32, "lines": 1, "steps": 3},
    "local_memory_spill": {"live_values": 5, "max_registers": 0, "rounds": 2},
    "elementwise_fused": {"columns": 77, "activation": "tanh", "block_threads": 64},
    "gelu": {"n": 999, "approximation": "tanh", "dtype": "float16"},
    "silu_mul": {"columns": 35, "dtype": "float32"},
    "rmsnorm": {"rows": 1, "columns": 75, "residual": False, "dtype": "float32", "block_threads": 96},
    "rope": {"tokens": 1, "head_dim": 10, "pairing": "interleaved", "dtype": "float32"},
    "sgemm_register": {"m": 5, "n": 37, "k": 19, "tile": 64},
    "sgemm_batched": {"batch": 2, "m": 33, "n": 9, "k": 7, "transposed": True},
    "sgemm_split_k": {"m": 7, "n": 33, "k": 70, "splits": 5, "meeting": "atomic"},
    "gemv": {"rows": 3, "columns": 77, "dtype": "float32"},
    "conv2d_direct": {"height": 17, "width": 8, "channels": 1, "filters": 3, "stride": 2, "padding": 0},
    "conv2d_implicit_gemm": {"channels": 3, "size": 6, "filters": 5, "stride": 2, "padding": 0},
    "maxpool2d": {"planes": 1, "height": 5, "width": 9, "window": 2, "stride": 3, "padding": 0},
    "avgpool2d": {"planes": 1, "height": 7, "width": 7, "window": 7, "stride": 1, "padding": 3},
    "embedding_gather": {"tokens": 1, "columns": 75, "skew": 0.0, "dtype": "float32"},
    "scatter_add": {"columns": 7, "skew": 3.0, "dtype": "float32", "block_threads": 32},
    "dequant_int8": {"rows": 1, "columns": 37},
    "dequant_int4": {"rows": 1, "columns": 24, "group": 8, "block_threads": 1},
    "gemv_w4a16": {"rows": 1, "columns": 24, "group": 8},
    "flash_attention": {"batch": 2, "tokens": 67, "causal": False, "dtype": "float32"},
    "paged_attention_decode": {"sequences": 1, "context": 3, "kv_heads": 4, "dtype": "float32"},
    "topk": {"rows": 1, "columns": 97, "k": 16, "distribution": "ties", "block_threads": 96},
    "moe_permute": {"tokens": 131, "per_token": 2, "columns": 3, "dtype": "float32"},
    "cross_entropy": {"rows": 1, "vocabulary": 75, "dtype": "float32", "block_threads": 32},
    "layernorm_backward": {"rows": 1, "columns": 33, "block_threads": 96},
    "sample_gumbel": {"vocabulary": 75, "temperature": 0.0, "block_threads": 96},
    "cpp_reduce": {"n": 33, "dtype": "int32", "items": 1},
    "cpp_scan": {"n": 1, "items": 1},
    "cpp_block_sort": {"tiles": 1, "bits": 5},
    "cpp_histogram": {"n": 77, "distinct": 1, "block_threads": 96},
    "cpp_select": {"n": 999, "selectivity": 1.0, "block_threads": 96},
    "cpp_reduce_by_key": {"n": 33, "mean_run": 100},
    "cpp_merge": {"n": 77, "run": 8, "items": 1},
    "cpp_sgemm": {"m": 32, "n": 96, "k": 8},
    "cpp_hgemm": {"n": 32, "k": 32, "stages": 4},
    "cpp_igemm": {"m": 16, "n": 8, "k": 32, "columns": 1, "warps": 2},
    "cpp_gemm_w4a16": {"n": 8, "k": 32, "group": 16, "warps": 1},
    "cpp_attention": {"heads": 2, "tokens": 48, "causal": False, "warps": 1, "tile": 16},
    "cpp_decode": {"context": 1, "dim": 128, "parts": 4},
    "cpp_mlp": {"inputs": 1, "outputs": 1, "rows": 2, "block_threads": 32},
    "cpp_layernorm": {"rows": 1, "pairs": 1},
    "cpp_layernorm_backward": {"rows": 1, "pairs": 1, "blocks": 3},
    "cpp_softmax": {"columns": 1},
    "cpp_grid_softmax": {"n": 33, "blocks": 2},
    "cpp_causal_conv1d": {"channels": 1, "tokens": 4, "taps": 2},
    "cpp_stencil3d": {"nx": 1, "ny": 9, "nz": 1},
    "cpp_conv2d": {"height": 1, "filter_size": 3, "per_thread": 1},
    "cpp_transpose": {"rows": 1, "dtype": "int16", "block_rows": 2},
    "cpp_spmm": {"rows": 33, "mean_row_length": 3, "skew": 0.0, "width": 132},
    "cpp_bfs": {"mean_degree": 2, "skew": 0.0, "blocks": 1},
    "cpp_triangles": {"vertices": 40, "mean_degree": 30, "skew": 0.0},
    "cpp_components": {"mean_degree": 1, "skew": 1.0},
    "cpp_black_scholes": {"n": 1, "block_threads": 33},
    "cpp_cholesky": {"order": 3, "matrices": 1},
    "cpp_hash_table": {"n": 1, "load_percent": 25},
    "cpp_philox": {"draws": 1, "blocks": 1},
    "cpp_alignment": {"pairs": 1, "length": 1},
    "cpp_min_plus": {"m": 32, "k": 16, "dtype": "int16"},
}


def run(name: str, shape: dict, gpu: str):
    """Capture all launches of the case on one device memory; the traces."""
    case = find_kernel(name).make(**shape)
    memory = DeviceMemory()
    traces = [
        capture(
            launch.kernel,
            launch.grid,
            launch.block,
            launch.args,
            gpu=gpu,
            shared_bytes=launch.shared_bytes,
            memory=memory,
        )
        for launch in case.launches
    ]
    case.check()
    return traces


#: Kernels that take seconds to compile: their odd shape, which is another compilation for some, is nightly only.
SLOW_TO_COMPILE = {
    "sgemm_register",
    "sgemm_batched",
    "sgemm_split_k",
    "conv2d_implicit_gemm",
    "flash_attention",
    "cpp_block_sort",
    "cpp_grid_softmax",
}


#: Kernels that take longest of all to compile -> one that has the same steps and runs by day; they themselves run in
#: the nightly test.
AT_NIGHT = {
    "sgemm_split_k": "sgemm_register",
    "sgemm_batched": "sgemm_register",
    "conv2d_implicit_gemm": "sgemm_register",
    "flash_attention": "paged_attention_decode",
    "topk": "bitonic_sort",
    "radix_sort_step": "compaction",
    "moe_permute": "compaction",
    "scan_block": "scan_lookback",
    "monte_carlo": "sample_gumbel",
    "cross_entropy": "softmax",
    "layernorm_backward": "layernorm",
    "cpp_block_sort": "cpp_scan",
    "cpp_grid_softmax": "cpp_softmax",
    "cpp_decode": "cpp_attention",
    "cpp_layernorm_backward": "cpp_layernorm",
}


def is_by_day(name: str) -> bool:
    """The kernels that stand for others, and of the rest two of three, by their names: what they have in common, the
    rows of the table show."""
    return name in AT_NIGHT.values() or (name not in AT_NIGHT and zlib.crc32(name.encode()) // 4 % 3 > 0)


BY_DAY = [name for name in NAMES if is_by_day(name)]


def test_what_runs_at_night_has_its_like_by_day():
    assert set(AT_NIGHT) < set(NAMES) and set(AT_NIGHT.values()) <= set(BY_DAY)


def architecture_of(name: str) -> str:
    """The one of the two everyday architectures that is a kernel's, by its name."""
    return EVERYDAY[zlib.crc32(name.encode()) % 2]


def is_odd(name: str) -> bool:
    """Whether a kernel's everyday shape is the odd one, by its name. Compiling takes nearly all of the time: the other
    shape of the same kernel runs in the nightly test, as both do on all architectures."""
    return name not in SLOW_TO_COMPILE and zlib.crc32(name.encode()) // 2 % 2 == 1


@pytest.mark.parametrize("name", [name for name in BY_DAY if not is_odd(name)])
def test_small_shape_equals_numpy(name):
    traces = run(name, find_kernel(name).small, architecture_of(name))
    assert 0 < sum(trace.warp_instructions for trace in traces) < 50_000


@pytest.mark.parametrize("name", [name for name in BY_DAY if is_odd(name)])
def test_odd_shape_equals_numpy(name):
    run(name, find_kernel(name).small | ODD_SHAPES[name], architecture_of(name))


#: What the published programs ran before 2025, where that was another kernel.
EARLIER_PROGRAMS = [
    ("pointer_chase", {"step_bytes": 64, "block_threads": 64, "buffer_kib": 2.6}),
    ("pointer_chase", {"step_bytes": 64, "block_threads": 64, "buffer_kib": 4096, "visited_lines": 90}),
    ("stream_triad", {"loads": 2}),
    ("l1_read", {"operands": 1, "block_threads": 256, "window_kib": 0, "rounds_apart": 0}),
    ("l1_read", {"operands": 1, "block_threads": 64, "footprint_kib": 40, "window_kib": 20, "dtype": "float64"}),
]


@pytest.mark.parametrize(("name", "variant"), EARLIER_PROGRAMS)
def test_earlier_published_programs_equal_numpy(name, variant):
    run(name, find_kernel(name).small | variant, architecture_of(name))


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", EVERYDAY + FURTHER)
@pytest.mark.parametrize("name", NAMES)
def test_every_architecture_equals_numpy(name, gpu):
    if gpu == "sm_70":
        pytest.importorskip("nvidia.nvjitlink", reason='needs "gpusim[volta]"')
    if name in {"sm_70": BEYOND_VOLTA, "sm_75": BEYOND_TURING}.get(gpu, ()):
        with pytest.raises(
            CompileError, match=f"does not (compile|link) for {gpu}|compiled for sm_75|no code for {gpu}"
        ):
            run(name, find_kernel(name).small, gpu)
        return
    traces = run(name, find_kernel(name).small, gpu)
    assert 0 < sum(trace.warp_instructions for trace in traces) < 50_000
    run(name, find_kernel(name).small | ODD_SHAPES[name], gpu)


@pytest.mark.parametrize("name", NAMES)
def test_a_check_fails_when_nothing_ran(name):
    case = find_kernel(name).make(**find_kernel(name).small)
    with pytest.raises(AssertionError):
        case.check()


@pytest.mark.parametrize("name", NAMES)
def test_entries_describe_all_their_axes(name):
    entry = find_kernel(name)
    assert entry.name == name and entry.purpose
    assert set(entry.axes) == set(entry.default) == set(entry.small)
    # What a wrong shape is told by, without loading the entry.
    said = suite().declared(name)
    assert said.default == entry.default
    parameters = inspect.signature(entry.make).parameters
    assert said.fractional == {
        axis for axis in entry.default if getattr(parameters.get(axis), "annotation", 0) == "float"
    }
    said.refuse(entry.default)
    said.refuse(entry.small)
    told = 0
    for axis, value in entry.small.items():
        for wrong in (0, -1, 10**9 + 1) if type(value) is int else ("nonsense",) if type(value) is str else ():
            try:
                said.refuse({axis: wrong})
            except ValueError as error:
                told += 1
                with pytest.raises(ValueError, match=f"^{re.escape(str(error))}$"):
                    entry.make(**entry.small | {axis: wrong})
    assert told or name in COMPUTED
    assert any(launch.timed for launch in entry.make(**entry.small).launches)
    assert entry.make(**entry.small).work


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_gives_one_case(name):
    entry = find_kernel(name)
    for first, second in zip(
        entry.make(**entry.small, seed=3).launches,
        entry.make(**entry.small, seed=3).launches,
        strict=True,
    ):
        assert repr(first.args) == repr(second.args)


def test_an_unknown_kernel_is_refused_with_close_names():
    with pytest.raises(UnknownKernelError, match="stream_triad"):
        find_kernel("steam_triad")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("saxpy", {"n": 0}),
        ("saxpy", {"block_threads": 1025}),
        ("reduce_sum", {"block_threads": 96}),
        ("stream_triad", {"blocks_per_sm": 300}),
        ("l2_read", {"footprint_kib": 25}),
        ("l1_stride", {"dtype": "int8"}),
        ("histogram", {"spread": 0.0}),
        ("pointer_chase", {"buffer_kib": 0}),
        ("pointer_chase", {"step_bytes": 48}),
        ("stream_triad", {"loads": 4}),
        ("l1_read", {"dtype": "float64"}),
        ("hgemm_tensor", {"k": 12}),
        ("igemm_int8", {"k": 8}),
        ("scan_lookback", {"block_threads": 48}),
        ("bitonic_sort", {"n": 192}),
        ("bitonic_sort", {"n": 32}),
        ("radix_sort_step", {"shift": 29}),
        ("fft", {"n": 8192}),
        ("stencil3d", {"rows": 2}),
        ("compaction", {"selectivity": 1.5}),
        ("spmv_ell", {"skew": -1.0}),
        ("histogram_privatised", {"n": 5}),
        ("atomic_contention", {"form": "int8_add"}),
        ("pipe_latency", {"op": "add"}),
        ("bank_conflicts", {"width_bytes": 2}),
        ("tensor_pipe", {"chains": 2}),
        ("shared_chase", {"step": 0}),
        ("coalescing", {"pattern": "permuted", "amount": 4}),
        ("shuffle", {"amount": 32}),
        ("constant_cache", {"table_bytes": 100}),
        ("divergence", {"paths": 33}),
        ("instruction_cache", {"body_instructions": 6}),
        ("local_memory_spill", {"max_registers": 7}),
        ("occupancy_ramp", {"blocks_per_sm": 300}),
        ("elementwise_fused", {"activation": "swish"}),
        ("gelu", {"dtype": "float64"}),
        ("rmsnorm", {"block_threads": 48}),
        ("rope", {"head_dim": 7}),
        ("sgemm_register", {"tile": 48}),
        ("sgemm_split_k", {"meeting": "file"}),
        ("conv2d_direct", {"padding": 3}),
        ("maxpool2d", {"window": 40}),
        ("scatter_add", {"skew": -1.0}),
        ("dequant_int4", {"group": 12}),
        ("flash_attention", {"head_dim": 128, "dtype": "float32"}),
        ("paged_attention_decode", {"kv_heads": 3}),
        ("topk", {"k": 400}),
        ("moe_permute", {"per_token": 10}),
        ("sample_gumbel", {"temperature": -1.0}),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused(name, wrong):
    entry = find_kernel(name)
    with pytest.raises(ValueError):
        entry.make(**(entry.small | wrong))


def pinned_shapes():
    suites = runpy.run_path(str(Path(__file__).parents[2] / "workloads" / "pinned.py"))["SUITES"]
    return [pytest.param(*point, id=f"{suite}-{i}") for suite in suites for i, point in enumerate(suites[suite])]


@pytest.mark.parametrize(("name", "shape"), pinned_shapes())
def test_pinned_shapes_make_cases(name, shape):
    entry = find_kernel(name)
    assert shape.keys() <= entry.axes.keys()
    assert entry.make(**(entry.default | shape)).launches


@pytest.mark.parametrize("per_sm", [64 * 1024, 164 * 1024, 228 * 1024])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 7, 16])
def test_padding_lets_exactly_so_many_blocks_fit(blocks, per_sm):
    entry = find_kernel("stream_init")
    shape = entry.small | {"blocks_per_sm": blocks, "shared_bytes_per_sm": per_sm}
    allocated = entry.make(**shape).launches[0].shared_bytes + 1024
    assert allocated % 128 == 0
    assert blocks * allocated <= per_sm < (blocks + 1) * allocated


@pytest.mark.parametrize("gpu", EVERYDAY)
def test_the_chase_is_one_chain_of_loads(gpu):
    """32 loads in a row, each taking its address from the one before: nothing may come between."""
    entry = find_kernel("pointer_chase")
    trace = run("pointer_chase", entry.small, gpu)[-1]
    texts = trace.program.texts
    loads = [i for i, text in enumerate(texts) if "LDG.E.64" in text]
    longest = run_length = 1
    for previous, current in pairwise(loads):
        chained = trace.program.instructions["sources"][current]
        target = trace.program.instructions["destination"][previous]
        run_length = run_length + 1 if current == previous + 1 and target in chained else 1
        longest = max(longest, run_length)
    assert longest >= 30
