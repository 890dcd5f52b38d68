"""What does a tensor-core instruction cost, by shape, format and GPU: when independent, and when dependent?"""

import pytest
from hand_traces import Asm, build, run_cycles, small_gpu

from gpusim.engine.gpu import simulate
from gpusim.errors import SpecError
from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.model.tensor import tensor_timing
from gpusim.theory.bounds import lower_bounds
from gpusim.trace.record import MatrixType, PipeClass

GPU = small_gpu()
M16N8K16 = 16 * 8 * 16
#: Datasheet rates (dense, 10**12 operations a second) that warp-wide products reach: GPU, format, rate.
DATASHEETS = [
    ("a100_80gb", MatrixType.F16, 312),
    ("a100_80gb", MatrixType.TF32, 156),
    ("a100_80gb", MatrixType.F64, 19.5),
    ("a100_80gb", MatrixType.INT8, 624),
    ("a100_80gb", MatrixType.INT4, 1248),
    ("a100_80gb", MatrixType.BIT, 4992),
    ("gh200", MatrixType.F64, 67),
    ("t4", MatrixType.F16, 65),
    ("t4", MatrixType.INT8, 130),
    ("rtx2080ti", MatrixType.F16, 53.8),
    ("rtx2080ti", MatrixType.F16_F16, 107.6),
    ("titan_rtx", MatrixType.F16, 130.5),
    ("a40", MatrixType.F16, 149.7),
    ("rtx3090", MatrixType.F16, 71),
    ("rtx3090", MatrixType.F16_F16, 142),
    ("l4", MatrixType.FP8, 242),
    ("l40", MatrixType.F16, 181),
    ("rtx4090", MatrixType.F16_F16, 330.3),
    ("rtx5090", MatrixType.FP8_F16, 838),
    ("rtx5090", MatrixType.SCALED_FP8, 838),
    ("rtx5090", MatrixType.FP4, 1676),
    ("rtx_pro_6000", MatrixType.FP4, 2015),
]


def products(count, stall=1, matrix=MatrixType.F16, macs=M16N8K16, **fields):
    asm = Asm()
    for _ in range(count):
        asm.op(PipeClass.TENSOR, stall, matrix_type=int(matrix), matrix_macs=macs, **fields)
    return asm.exit()


@pytest.mark.parametrize(("gpu", "matrix", "tera_ops"), DATASHEETS)
def test_peak_rates_are_the_datasheets(gpu, matrix, tera_ops):
    spec = load_gpu(gpu)
    macs = 1 << 18  # as many as whole cycles need to show the rate
    interval, _ = tensor_timing(matrix, macs, spec)
    rate = 2 * macs / interval * spec.clock_hz * spec.sm_count * spec.sm.sub_cores
    assert rate == pytest.approx(tera_ops * 1e12, rel=0.02)


def test_the_measured_rate_of_warp_wide_products_on_hopper():
    h800 = load_gpu("h100_pcie")  # the same SMs and clock
    rate = 2 * h800.tensor.f16_macs_per_cycle * h800.clock_hz * h800.sm_count * h800.sm.sub_cores
    assert rate == pytest.approx(494.4e12, rel=0.005)  # Luo et al., arXiv 2402.13499


@pytest.mark.parametrize("gpu", list_gpus())
def test_every_gpu_multiplies_halves_and_bytes(gpu):
    spec = load_gpu(gpu)
    half, latency = tensor_timing(MatrixType.F16, M16N8K16, spec)
    shallow, early = tensor_timing(MatrixType.F16, M16N8K16 // 2, spec)
    byte, _ = tensor_timing(MatrixType.INT8, 2 * M16N8K16, spec)
    assert 1 <= shallow <= half <= 2 * shallow
    assert early <= latency and half <= latency
    assert byte <= half


@pytest.mark.parametrize(
    ("matrix", "macs"), [(MatrixType.F16, M16N8K16), (MatrixType.TF32, 512), (MatrixType.F64, 256)]
)
def test_independent_products_reach_the_rate_and_no_more(matrix, macs):
    interval, _ = tensor_timing(matrix, macs, GPU)
    trace = build(products(40, matrix=matrix, macs=macs), threads=32 * 32)
    found = run_cycles(simulate(trace, GPU))
    # eight warps on one sub-core
    assert (8 * 40 - 1) * interval <= found <= 8 * 40 * interval + 8 + 2 * interval
    assert lower_bounds(trace, GPU).cycles["pipe.tensor"] == 32 * 40 * interval / (GPU.sm_count * GPU.sm.sub_cores)


def test_dependent_products_wait_for_the_latency_and_no_longer():
    _, latency = tensor_timing(MatrixType.F64, 256, GPU)
    asm = products(20, 2, MatrixType.F64, 256, write_barrier=0, wait_mask=1)
    assert latency > tensor_timing(MatrixType.F64, 256, GPU)[0]
    assert run_cycles(simulate(build(asm), GPU)) == 19 * latency + 2


def test_stall_counts_of_the_compiler_decide_where_there_is_no_counter():
    assert run_cycles(simulate(build(products(20, 11)), GPU)) == 20 * 11


def test_a_product_that_the_gpu_does_not_have_is_refused_by_name():
    with pytest.raises(SpecError, match="fp8_macs_per_cycle"):
        simulate(build(products(1, matrix=MatrixType.FP8, macs=4096)), GPU)


def test_a_trace_that_does_not_say_what_is_multiplied_gets_the_pipes_figures():
    pipe = GPU.pipes["tensor"]
    assert tensor_timing(MatrixType.NONE, 0, GPU) == (pipe.interval_cycles, pipe.latency_cycles)
