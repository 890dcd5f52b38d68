"""Kernels that convert the first operand of a product: what bounds them on which GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from operators.eager import eager_int8_seconds, elements_of_a_thread

from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.described import described_library
from gpusim.tile.machine import tile_machine
from gpusim.tile.memory import memory_library_of
from gpusim.tile.product import GemmOp, converting_library, project_product
from gpusim.tile.software import software_of, with_software

A100, H100, B200, L40S = (load_gpu(name) for name in ("a100_80gb", "h100", "b200", "l40s"))


@pytest.mark.parametrize(("framework", "block_scaled"), [("trtllm", True), ("vllm", False), ("sglang", False)])
def test_a_conversion_that_sms_bound_is_no_faster_on_faster_dram(framework, block_scaled):
    faster = replace(H100, dram=replace(H100.dram, peak_bytes_per_ns=2 * H100.dram.peak_bytes_per_ns))
    fewer = replace(H100, sm_count=H100.sm_count // 2)
    op = GemmOp(16384, 64, 16384, "fp8", block_scaled=block_scaled, framework=framework)

    def seconds(spec: GpuSpec) -> float:
        both, alone = (project_product(spec, replace(op, input_dtype=each)).seconds for each in ("bf16", "fp8"))
        return both - alone

    assert seconds(faster) == pytest.approx(seconds(H100), rel=0.01)
    assert 1.8 < seconds(fewer) / seconds(H100) < 2.1
    # A DRAM slower than that bounds it as it does other kernels that move data.
    slow = replace(H100, dram=replace(H100.dram, peak_bytes_per_ns=H100.dram.peak_bytes_per_ns / 8))
    moved = 3 * 16384 * 16384 / (tile_machine(slow, "fp16").dram_bytes_per_cycle * slow.clock_hz)
    assert 1.0 < seconds(slow) / moved < 1.05


def test_what_lies_in_l2_is_converted_as_many_times_faster_as_it_comes_sooner():
    around = software_of("trtllm", "fp8_block")
    known = converting_library(H100, memory_library_of("hopper"), with_software(H100, described_library(H100), around))
    machine = tile_machine(H100, "fp16")
    from_dram, from_l2 = (
        share * rate
        for share, rate in (
            (known.dram_share, machine.dram_bytes_per_cycle), (known.l2_rate_share, machine.l2_bytes_per_cycle),
        )
    )  # fmt: skip
    assert from_dram == pytest.approx(around.convert_bytes_per_cycle * H100.sm_count)
    assert from_l2 / from_dram == pytest.approx(machine.dram_latency_cycles / machine.l2_latency_cycles)


def test_a_conversion_to_block_scales_takes_no_longer_than_other_kernels_that_move_as_much():
    """SGLang's on a GPU whose DRAM is slow beside its SMs: no share of DRAM's rate is lost."""
    op = GemmOp(16384, 64, 16384, "fp8", block_scaled=True)
    both, alone = (project_product(L40S, replace(op, input_dtype=each)).seconds for each in ("bf16", "fp8"))
    machine = tile_machine(L40S, "fp16")
    moved = (3 + 4 / 128) * 16384 * 16384 / (machine.dram_bytes_per_cycle * machine.clock_hz)
    assert 1.0 < (both - alone) / moved < 1.15


def test_a_kernel_that_lays_scales_anew_goes_through_the_rows_once_more():
    around = software_of("trtllm", "fp8_block")
    rates = [with_software(spec, described_library(spec), around).convert_rate for spec in (H100, B200)]
    assert rates[0] == around.convert_rate == 2 * rates[1]


def test_sglangs_weights_of_int8_are_multiplied_in_int8_and_the_plugins_are_widened():
    large = GemmOp(8192, 8192, 1024, "int8_wo")
    plugin, converted = (project_product(H100, replace(large, framework=each)) for each in ("", "sglang"))
    assert (plugin.dtype, converted.dtype) == ("fp16", "int8")
    assert converted.launches == plugin.launches + 1
    # The conversion goes over the operand once, as a server has it.
    alone = project_product(H100, replace(large, framework="sglang", input_dtype="int8_wo"))
    moved_seconds = 3.0 * large.rows * large.depth / (H100.dram.read_bytes_per_ns * 1e9)
    assert alone.seconds + moved_seconds < converted.seconds < alone.seconds + moved_seconds + 10e-6
    few = replace(large, rows=1)
    assert converted.validated
    assert project_product(A100, replace(few, framework="trtllm")) == project_product(A100, few)


def test_rows_of_int8_weights_have_a_conversion_of_pytorchs_operations_before_the_product():
    # A warp a row until a thread has 256 elements of it, then all threads: rows of 7,168 take longer than of 8,192.
    assert [elements_of_a_thread(16, depth) for depth in (512, 7168, 8192)] == [16, 224, 16]
    assert [elements_of_a_thread(rows, 4096) for rows in (1, 2, 8, 100)] == [8, 16, 64, 128]
    assert eager_int8_seconds(H100, 16, 7168) > 1.5 * eager_int8_seconds(H100, 16, 8192)
    # 47 bytes an element.
    large = eager_int8_seconds(H100, 16384, 8192) - eager_int8_seconds(H100, 8192, 8192)
    assert large == pytest.approx(47 * 8192 * 8192 / (0.834 * H100.dram.read_bytes_per_ns * 1e9), rel=0.02)
