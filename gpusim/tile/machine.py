"""A described GPU as tile programs meet it: rates a cycle and latencies, no instruction below them."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.errors import SpecError
from gpusim.gpus.spec import TENSOR_ROW_BYTES, TENSOR_ROWS, GpuSpec

#: What a product's operands are called -> bytes an element, and the field of TensorSpec that has the rate of its
#: products; fp32 runs on FMA pipes, mxfp8 is fp8 whose scales for blocks the tensor cores take.
OPERANDS: dict[str, tuple[float, str]] = {
    "bf16": (2.0, "f16_macs_per_cycle"),
    "fp16": (2.0, "f16_macs_per_cycle"),
    "fp32": (4.0, ""),
    "tf32": (4.0, "tf32_macs_per_cycle"),
    "int8": (1.0, "int8_macs_per_cycle"),
    "fp8": (1.0, "fp8_macs_per_cycle"),
    "mxfp8": (1.0, "scaled_fp8_macs_per_cycle"),
    "int4": (0.5, "int4_macs_per_cycle"),
    "fp4": (0.5, "fp4_macs_per_cycle"),
}

#: The first capability whose tensor cores multiply such operands (PTX ISA, mma, target notes); an older GPU that
#: inherits a newer one's rates has none.
_FIRST_CAPABILITY = {"bf16": (8, 0), "tf32": (8, 0), "int8": (7, 2), "int4": (7, 5)}
#: Bytes of a result, where libraries do not write 16 bits.
RESULT_BYTES = {"fp32": 4, "tf32": 4}
_WARP_LANES = 32
#: Of DRAM's described rate that loads of an A100's long products reach: what an H100's products do (library.toml).
MOST_DRAM_SHARE = 0.92
#: The same where no SM's part of it bounds them: cuBLAS's large products of one row read at 95 % of what streams do on
#: an RTX 4070 Laptop (Nsight Compute, rishi-more-2003/decode-roofline). Tokens of vLLM on an RTX 4090 (learning rows)
#: are 9 % too slow with it, 12 with 0.92; Llama 3 8B in FP16 under llama.cpp on seven boards 2.7 % off, 1.6 with 0.92
#: (RTX 4090 and 4080 then 3 and 5 too slow; docs/validation/notes/dram.md).
_UNBOUND_SHARE = 0.95
#: Where a product of 4-bit floats takes 96 of a row (PTX ISA, tcgen05.mma, kind::mxf4 with K = 96: sm_103a alone). HGX
#: B300 datasheet: 13.1 PFLOPS of them where FP8 has 4.5.
_DEEP_FP4, _DEEP_FP4_ROW_BYTES = (10, 3), 48
#: What an SM of a generation was described to take of loads a cycle when this floor's constants were found, which are
#: shares of it: GH200's was 40 then. They stand for it until they are searched anew.
_FOUND_WITH_BYTES = {"hopper": 40}
#: Capabilities whose products on tensor memory are of floats alone: kind::i8 is not there on sm_103a (the same target
#: notes).
_FLOATS_ALONE = ((10, 3),)


@dataclass(frozen=True)
class TileMachine:
    """Rates in bytes or operations a cycle of the SMs' clock, latencies in its cycles. ``flops_per_cycle``: of one SM's
    tensor cores, or its FMA pipes for fp32, a multiply-add counting two; ``l2_halves``: whether L2 is two, each of
    which keeps what the SMs near it read; ``l2_ways``: of each of its sets; ``l2_bytes_per_cycle`` and
    ``dram_bytes_per_cycle``: of the GPU."""

    name: str
    generation: str
    clock_hz: float
    sm_count: int
    flops_per_cycle: float
    l2_bytes: float
    l2_halves: bool
    l2_ways: int
    l2_bytes_per_cycle: float
    l2_latency_cycles: float
    dram_bytes_per_cycle: float
    dram_latency_cycles: float

    def dram_share(self, share: float, fed_bytes_per_ns: float) -> float:
        """Of DRAM's described rate that kernels reach here whose ``share`` was set on a GPU with ``fed_bytes_per_ns``
        of it for each SM (0: any GPU). There it is rather what an SM's loads reach, so that a GPU with less for each
        has a larger share, up to what is reached where DRAM alone bounds."""
        of_an_sm = self.dram_bytes_per_cycle / self.sm_count * self.clock_hz / 1e9
        return _share_of_less(share, fed_bytes_per_ns, of_an_sm, _UNBOUND_SHARE)

    def lost_share(self, touched_bytes: float, found_share: float) -> float:
        """Of what a launch touches, the share (0 to 1) that one which touches the same does not find in L2 again.
        ``found_share``: of a L2 of two halves, beyond which nothing is found, as rows of such GPUs say it. One in one
        piece replaces what was longest unused in each set (docs/validation/notes/caches.md): with as much as it holds
        nothing is lost, with a way of each set more all; that sets differ by a way either way is taken. Published runs
        of experts (traces/library/published_operators.csv) find all at 0.90 of an RTX 5090's and at 0.74 of an RTX PRO
        6000's, and lose about a third at 0.98 of an L40S's."""
        if self.l2_halves:
            return float(touched_bytes > found_share * self.l2_bytes)
        return min(1.0, max(0.0, (touched_bytes / self.l2_bytes - 1.0) * self.l2_ways / 2 + 0.5))

    def l2_share(self, share: float, fed_bytes_per_cycle: float) -> float:
        """The same of L2's rate, by ``fed_bytes_per_cycle`` of it for each SM: 0.29 of an A100's L2 are 10 bytes a
        cycle of an SM, which a GPU whose L2 has half as many for each reaches too."""
        return _share_of_less(share, fed_bytes_per_cycle, self.l2_bytes_per_cycle / self.sm_count, 1.0)

    def cycles_of(self, cycles: float, clock_mhz: float) -> float:
        """What ``cycles`` of a clock of ``clock_mhz`` are here, where they keep their time."""
        return cycles * self.clock_hz / (1e6 * clock_mhz)


def tile_machine(spec: GpuSpec, dtype: str) -> TileMachine:
    """The machine that products of ``dtype`` (a key of :data:`OPERANDS`) meet on ``spec``. Latencies are those of a
    load that finds its line in the near or far half of L2 alike, or in DRAM, as the description has them. Raises
    SpecError where the GPU has no such product."""
    if dtype not in OPERANDS:
        raise SpecError(f"products of {dtype!r} are not known: known are {', '.join(OPERANDS)}")
    rate = _macs_per_cycle(spec, dtype)
    if not rate:
        instead = (
            "; take fp16"
            if dtype == "bf16"
            else ""
            if OPERANDS[dtype][0] >= 2
            else "; weights alone may have few bits: int8_wo, int4_wo, mxfp4_wo"
        )
        raise SpecError(f"the tensor cores of {spec.name} have no products of {dtype}{instead}")
    cycles_a_ns = spec.clock_hz / 1e9
    way_ns = spec.crossbar.request_latency_ns + spec.crossbar.response_latency_ns + spec.l2.hit_latency_ns
    hit_ns = way_ns + spec.l2.far_hit_extra_ns / 2
    miss_ns = way_ns + spec.l2.far_miss_extra_ns / 2 + spec.dram.miss_latency_ns
    return TileMachine(
        name=spec.name,
        generation=spec.generation,
        clock_hz=spec.clock_hz,
        sm_count=spec.sm_count,
        flops_per_cycle=2.0 * rate,
        l2_bytes=float(spec.l2.total_bytes),
        l2_halves=spec.l2.far_hit_extra_ns > 0,
        l2_ways=spec.l2.ways,
        l2_bytes_per_cycle=min(spec.l2.slices * spec.l2.slice_bytes_per_ns / cycles_a_ns, spec.sm_count * loaded_bytes_per_cycle(spec)),
        l2_latency_cycles=hit_ns * cycles_a_ns,
        dram_bytes_per_cycle=spec.dram.read_bytes_per_ns / cycles_a_ns,
        dram_latency_cycles=miss_ns * cycles_a_ns,
    )  # fmt: skip


def _share_of_less(share: float, fed: float, of_an_sm: float, most: float) -> float:
    """Of a rate of which an SM here has ``of_an_sm``, the share, up to ``most``, that reaches as much for each SM as
    ``share`` does where it has ``fed``; ``share`` itself where an SM here has no less."""
    if of_an_sm >= fed:
        return share
    return max(share, min(most, share * fed / of_an_sm))


def loaded_bytes_per_cycle(spec: GpuSpec) -> float:
    """What an SM takes of loads from L2 a cycle, as this floor's constants have it."""
    described = float(spec.l1.fill_bytes_per_cycle)
    return min(described, _FOUND_WITH_BYTES.get(spec.generation, described))


def has_products(spec: GpuSpec, dtype: str) -> bool:
    """Whether the GPU multiplies operands of ``dtype``, a key of :data:`OPERANDS`."""
    return _macs_per_cycle(spec, dtype) > 0


def fma_lanes(spec: GpuSpec) -> float:
    """An SM's FP32 multiply-adds a cycle on its FMA pipes."""
    return spec.sm.sub_cores * _WARP_LANES / spec.pipes["fma"].interval_cycles


def warps_share(spec: GpuSpec) -> float:
    """Of the rate of the newest unit that the GPU multiplies 16 bits with, what its warps reach with theirs
    (mma.sync)."""
    return min(1.0, spec.sm.sub_cores * spec.tensor.f16_macs_per_cycle / _macs_per_cycle(spec, "fp16"))


def _macs_per_cycle(spec: GpuSpec, dtype: str) -> float:
    """An SM's multiply-adds a cycle by the newest unit that it has, which libraries use: tensor memory (32 bytes of
    each of 128 rows a column), warp groups, warps; 0 where it has none. fp32: by its FMA pipes."""
    element_bytes, field = OPERANDS[dtype]
    if dtype == "fp32":
        return fma_lanes(spec)
    if spec.capability < _FIRST_CAPABILITY.get(dtype, (0, 0)):
        return 0.0
    # tcgen05 has products of 4-bit floats, not of integers
    of_warps = dtype == "int4" or (dtype == "int8" and spec.capability in _FLOATS_ALONE)
    if spec.tensor_memory.columns_per_cycle and not of_warps:
        row_bytes = _DEEP_FP4_ROW_BYTES if dtype == "fp4" and spec.capability == _DEEP_FP4 else TENSOR_ROW_BYTES
        return spec.tensor_memory.columns_per_cycle * TENSOR_ROWS * row_bytes / element_bytes
    of_groups = getattr(spec.tensor, f"warpgroup_{field}", 0.0) if not spec.tensor_memory.columns_per_cycle else 0.0
    return spec.sm.sub_cores * (of_groups or getattr(spec.tensor, field, 0.0))
