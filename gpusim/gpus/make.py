"""A GPU file made from a datasheet and from the description of a related GPU, by rules.

Mental model: what the datasheet states is taken from it; what follows from it (channels of a memory bus, slices of L2, cycles of a
tensor core) is computed; everything else is the related GPU's, which the new file inherits. Each value says which it is:
``datasheet`` for what is stated or is arithmetic on it, ``guess`` for a rule. A file made so is a start: measurements replace its
guesses one by one.

Rules, with their reasons:

- Latencies beyond the SM stay in nanoseconds, SM-side ones in cycles: crossbar, L2 and DRAM have clocks of their own (the RTX
  4090, described like the L40, has both its latencies within 8 %).
- L2 and crossbar rates scale with the SM clock, which L2's clock follows on the GPUs that are described, and a slice's rate with the width that
  its generation has (:mod:`gpusim.gpus.capability_rules`).
- What starts a launch and its blocks keeps its time, not its cycles: from 1.41 to 2.49 GHz the described GPUs need 370 to 500 ns to start a launch
  and 170 to 215 ns from a block to the next.
- An SM's port to the crossbar is as much wider as the slices at its other end.
- L2 has a slice for each 64 bits of an HBM bus (16 a stack: GA100, GH100 and GB100 alike) and for each 8 of GDDR (TU104, GA102, AD102 and GB202 alike).
- How many warps, blocks and bytes an SM holds is what the programming guide says of the capability.
- Two FP64 units an SM have a latency that the related GPU's full-rate units do not show: 64 cycles, as published for two generations.
- A DRAM channel is as wide as its standard has it; the reachable share of the pin rate is that of the related GPU for the same
  kind of memory, else what the curves of this kind gave.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gpusim.errors import SpecError, UnknownGpuError, UsageError
from gpusim.gpus.capability_rules import LIMITS, slice_width
from gpusim.gpus.consistency import check_consistency
from gpusim.gpus.datasheet import Datasheet
from gpusim.gpus.load import Claim, build, claims_of, locate
from gpusim.gpus.spec import GpuSpec


@dataclass(frozen=True)
class MemoryKind:
    """What a DRAM standard fixes, the bits of its bus for which L2 has a slice, and the share of its pin rate that streams reach."""

    channel_bits: int
    banks: int
    row_bytes: int
    slice_bits: int
    efficiency: float
    source: str
    efficiency_source: str


_TWO_HBM3 = "between GH200 (0.98) and H200 (0.81)"
#: Widths, banks and pages: JEDEC JESD250 (GDDR6), JESD239 (GDDR7), JESD235 (HBM2), JESD238 (HBM3).
MEMORY_KINDS: dict[str, MemoryKind] = {
    "GDDR6": MemoryKind(16, 16, 2048, 8, 0.976, "JEDEC GDDR6", "A40: stream init and read, 679 of 696 GB/s"),
    "GDDR6X": MemoryKind(16, 16, 2048, 8, 0.976, "as GDDR6", "as GDDR6"),
    "GDDR7": MemoryKind(8, 16, 1024, 8, 0.976, "JEDEC GDDR7: four channels a device", "as GDDR6"),
    "HBM2": MemoryKind(
        64, 16, 1024, 64, 0.965, "JEDEC HBM2, pseudo channels", "A100 40 GB: stream read, 1500 of 1555 GB/s"
    ),
    "HBM2e": MemoryKind(
        64, 16, 1024, 64, 0.93, "JEDEC HBM2, pseudo channels", "A100 80 GB: stream init, 1900 of 2039 GB/s"
    ),
    "HBM3": MemoryKind(32, 16, 1024, 64, 0.9, "JEDEC HBM3, pseudo channels", _TWO_HBM3),
    "HBM3e": MemoryKind(32, 16, 1024, 64, 0.9, "JEDEC HBM3, pseudo channels", _TWO_HBM3),
}
#: Built-in GPU -> its memory, which its file's figures alone do not tell.
MEMORY_OF = {
    "t4": "GDDR6", "v100": "HBM2", "a100_80gb": "HBM2e", "a100_40gb": "HBM2", "a100_pcie_40gb": "HBM2", "a30": "HBM2", "a40": "GDDR6", "a10": "GDDR6",
    "rtx_a4000": "GDDR6", "rtx_a6000": "GDDR6", "rtx3090": "GDDR6X", "l40": "GDDR6", "l40s": "GDDR6", "l4": "GDDR6",
    "rtx4090": "GDDR6X", "h100": "HBM3", "h100_pcie": "HBM2e", "h800": "HBM3", "gh200": "HBM3", "h200": "HBM3e",
    "b200": "HBM3e", "b300": "HBM3e", "gb200": "HBM3e", "rtx5090": "GDDR7", "rtx_pro_6000": "GDDR7",
}  # fmt: skip
#: Words for a generation -> the GPU of it that is described best.
GENERATIONS = {
    "volta": "v100", "turing": "t4", "ampere": "a100_80gb", "ga100": "a100_80gb", "ga10x": "a40", "ada": "l40", "hopper": "h200",
    "blackwell": "b200", "gb20x": "rtx5090",
}  # fmt: skip
#: Multiply-adds of an m16n8k16, by which the tensor pipe's row of a GPU file is stated.
_M16N8K16 = 16 * 8 * 16
#: A datasheet rounds: a rate this near to a power of two is taken to be it.
_ROUNDING = 0.08
#: Issue to dependent issue where two FP64 units serve an SM. Sources: accel-sim, config SM86_RTX3070 (64); arXiv 2507.10789, RTX 5080 (63.57).
_FEW_FP64_LATENCY_CYCLES = 64


class Made(NamedTuple):
    """A new GPU: the text of its file, and its checked spec."""

    text: str
    spec: GpuSpec


def make_gpu(name: str, sheet: Datasheet, like: str | Path, inherited: Mapping[str, Claim] | None = None) -> Made:
    """The GPU file called ``name`` of the product ``sheet`` describes, on top of the GPU (or generation, or file) ``like``;
    ``inherited``: other claims than ``like``'s own, for who holds some of them out.

    Raises UsageError for a name that no file can have, UnknownGpuError for ``like``, SpecError where the datasheet's figures
    make no machine."""
    if not name.isidentifier() or not name.isascii():
        raise UsageError(f"{name!r} is no name for a GPU file: letters, digits and _ only, as in rtx_a6000")
    parent = GENERATIONS.get(str(like).casefold(), like)
    try:
        path = locate(parent)
    except UnknownGpuError as error:
        raise UnknownGpuError(f"{error}; or a generation: {', '.join(GENERATIONS)}") from None
    below = dict(claims_of(path) if inherited is None else inherited)
    base = build(path, below)
    built_in = path.parent == Path(__file__).parent
    claims = dict(_claims(sheet, base, path.stem, MEMORY_OF.get(path.stem, "") if built_in else ""))
    target = Path(f"{name}.toml")
    try:
        spec = build(target, below | claims)
        check_consistency(spec, str(target))
    except SpecError as error:
        raise SpecError(f"{sheet.title}, like {path.stem}: {error}") from None
    return Made(_text(sheet, path.stem if built_in else str(parent), claims), spec)


def _claims(sheet: Datasheet, base: GpuSpec, like: str, memory: str) -> Iterator[tuple[str, Claim]]:
    """(key, claim) of each value that the new file states. ``memory``: the kind of the related GPU's, empty where it is not known."""

    def stated(key: str, value: object, why: str) -> tuple[str, Claim]:
        return key, Claim(value, "datasheet", f"{sheet.source}: {why}", "")

    def ruled(key: str, value: object, why: str) -> tuple[str, Claim]:
        return key, Claim(value, "guess", why, "")

    clock_hz = sheet.boost_clock_mhz * 1e6
    yield stated("title", sheet.title, "product name")
    if sheet.generation:
        yield stated("generation", sheet.generation, "generation")
    if sheet.capability:
        yield stated("capability", list(sheet.capability), "compute capability")
    yield stated("clock_hz", clock_hz, "boost clock")
    yield stated("sm_count", sheet.sm_count, f"{sheet.sm_count} SMs")
    capability = sheet.capability or base.capability
    if capability != base.capability:
        for key, value in LIMITS.get(capability, {}).items():
            section, _, field = key.partition(".")
            if getattr(getattr(base, section), field) != (tuple(value) if isinstance(value, list) else value):
                guide = "CUDA C++ Programming Guide, capability {}.{}".format(*capability)
                yield key, Claim(value, "datasheet", guide, "")
    yield from _pipes(sheet, base, clock_hz, stated)
    faster = clock_hz / base.clock_hz
    wider = slice_width(capability) / slice_width(base.capability)
    why = f"{like}'s, by the ratio of the clocks" + (f" and {wider:g} times as wide" if wider != 1 else "")
    for key, rate in (
        ("slice_bytes_per_ns", base.l2.slice_bytes_per_ns),
        ("slice_write_bytes_per_ns", base.l2.slice_write_bytes_per_ns),
    ):
        yield ruled(f"l2.{key}", round(rate * faster * wider, 1), why)
    if base.l2.partitions > 1 and faster != 1:
        link = base.l2.partition_link_bytes_per_ns
        yield ruled("l2.partition_link_bytes_per_ns", round(link * faster, 1), f"{like}'s, by the ratio of the clocks")
    if wider != 1:
        for port in ("fill", "store"):
            width = slice_width(capability)  # of the network's flits, on either side of it
            if wider < 1:  # on some GPUs less than the port's width comes in: that goes through half a port too
                width = min(width, getattr(base.l1, f"{port}_bytes_per_cycle"))
            yield ruled(f"l1.{port}_bytes_per_cycle", width, f"{like}'s, {wider:g} times as wide as the slices are")
    for key in ("start_cycles", "end_cycles", "block_turnaround_cycles"):
        cycles = round(getattr(base.launch, key) * faster)
        if cycles != getattr(base.launch, key):
            yield ruled(f"launch.{key}", cycles, f"{like}'s time, at this clock")
    for key, interval in (
        ("atomic_interval_ns", base.l2.atomic_interval_ns),
        ("tag_interval_ns", base.l2.tag_interval_ns),
    ):
        yield ruled(f"l2.{key}", round(interval / faster, 3), f"{like}'s, by the ratio of the clocks")
    yield from _memory(sheet, base, like, memory, stated, ruled)


def _pipes(sheet: Datasheet, base: GpuSpec, clock_hz: float, stated) -> Iterator[tuple[str, Claim]]:
    """Rates of the cores and of the tensor cores, as cycles and as multiply-adds a cycle."""
    sub_cores = sheet.sm_count * base.sm.sub_cores
    rates = sheet.dense_tflops

    def macs(teraflops: float) -> float:
        """Multiply-adds a cycle of one sub-core."""
        return teraflops * 1e12 / 2 / (sub_cores * clock_hz)

    if rates.fp32 is not None:
        interval = max(1, round(32 / macs(rates.fp32)))
        yield stated("pipes.fma.interval_cycles", interval, f"{rates.fp32:g} TFLOPS FP32")
        yield stated("pipes.fma.latency_cycles", base.pipes["fma"].latency_cycles, "latency as of the related GPU")
    if rates.fp64 is not None:
        few = macs(rates.fp64) < 4  # fewer lanes than a warp's eighth: one unit serves the SM
        lanes = _even(macs(rates.fp64) * (base.sm.sub_cores if few else 1))
        pipe = base.pipes["fp64"]
        yield stated("pipes.fp64.interval_cycles", max(1, round(32 / lanes)), f"{rates.fp64:g} TFLOPS FP64")
        latency = _FEW_FP64_LATENCY_CYCLES if few and not pipe.shared_by_sm else pipe.latency_cycles
        yield stated("pipes.fp64.latency_cycles", latency, "latency as of the related GPU")
        yield stated("pipes.fp64.shared_by_sm", few, "units an SM")
    fastest = max(filter(None, (rates.f16, rates.f16_f16)), default=None)
    if fastest is not None:
        pipe = base.pipes["tensor"]
        yield stated(
            "pipes.tensor.interval_cycles", max(1, round(_M16N8K16 / macs(fastest))), f"{fastest:g} TFLOPS FP16"
        )
        yield stated("pipes.tensor.latency_cycles", pipe.latency_cycles, "latency as of the related GPU")
    for kind in ("f16", "f16_f16", "tf32", "f64", "int8", "int4", "fp8", "fp8_f16"):
        rate = getattr(rates, kind)
        if rate is not None:
            yield stated(f"tensor.{kind}_macs_per_cycle", _even(macs(rate)), f"{rate:g} TFLOPS or TOPS, dense")


def _even(rate: float) -> float:
    """``rate``, or the power of two of which it is the rounding."""
    power = 2.0 ** round(math.log2(rate))
    return power if abs(rate / power - 1) <= _ROUNDING else float(f"{rate:.3g}")


def _memory(sheet: Datasheet, base: GpuSpec, like: str, base_kind: str, stated, ruled) -> Iterator[tuple[str, Claim]]:
    """L2's slices and size, and DRAM. ``base_kind``: the related GPU's kind of memory, empty where it is not known."""
    memory = sheet.memory
    kind = MEMORY_KINDS.get(memory.kind)
    if kind is None:
        raise SpecError(f"{sheet.title}: memory.kind is {memory.kind!r}; known are {', '.join(MEMORY_KINDS)}")
    channels = max(1, round(memory.bus_bits / kind.channel_bits))
    alike = (kind.banks, kind.row_bytes) == (base.dram.banks_per_channel, base.dram.row_bytes)
    same = memory.kind == base_kind if base_kind else alike
    slices = _slices(memory.bus_bits / kind.slice_bits, channels, base.l2.partitions)
    if slices != base.l2.slices:
        why = f"{memory.bus_bits} bits of {memory.kind}, a slice for each {kind.slice_bits}"
        yield ruled("l2.slices", slices, why)
    set_bytes = slices * base.l2.ways * base.l2.line_bytes
    sets = max(1, round(sheet.l2_mib * 2**20 / set_bytes))
    whole = " (a whole number of sets)" if sets * set_bytes != sheet.l2_mib * 2**20 else ""
    yield stated("l2.total_bytes", sets * set_bytes, f"{sheet.l2_mib:g} MiB of L2{whole}")
    yield stated("dram.total_bytes", int(memory.gib * 2**30), f"{memory.gib:g} GB of {memory.kind}")
    yield stated(
        "dram.channels", channels, f"{memory.bus_bits} bits in channels of {kind.channel_bits} ({kind.source})"
    )
    yield stated("dram.banks_per_channel", kind.banks, kind.source)
    yield stated("dram.row_bytes", kind.row_bytes, kind.source)
    yield stated("dram.peak_bytes_per_ns", memory.gb_per_s, f"{memory.gb_per_s:g} GB/s")
    if not same:
        yield ruled("dram.efficiency", kind.efficiency, f"{memory.kind}: {kind.efficiency_source}")


def _slices(wanted: float, channels: int, partitions: int) -> int:
    """The number of slices nearest to ``wanted`` that divides over partitions and that channels divide over, or the reverse."""
    fits = [n for n in range(partitions, 4 * channels + 1, partitions) if channels % n == 0 or n % channels == 0]
    if not fits:
        raise SpecError(f"{channels} DRAM channels divide over no number of L2 slices in {partitions} partitions")
    return min(fits, key=lambda n: (abs(n - wanted), n))


def _text(sheet: Datasheet, like: str, claims: dict[str, Claim]) -> str:
    """The GPU file."""
    lines = [
        f"# {sheet.title}, made by `gpusim gpus make` from its datasheet; what it does not state is inherited.",
        "",
        f"inherits = {_quoted(like)}",
        "",
    ]
    section = ""
    for key, claim in _pipes_joined(claims):
        own, _, name = key.rpartition(".")
        if own != section:
            lines += ["", f"[{own}]"] if lines[-1] else [f"[{own}]"]
            section = own
        lines.append(f"{name} = {{ {claim} }}")
    return "\n".join(lines) + "\n"


def _pipes_joined(claims: dict[str, Claim]) -> Iterator[tuple[str, str]]:
    """(key, its inline table's content); a pipe's values stand in one table."""
    pipes: dict[str, list[tuple[str, Claim]]] = {}
    for key, claim in claims.items():
        if key.startswith("pipes."):
            _, pipe, field = key.split(".")
            pipes.setdefault(pipe, []).append((field, claim))
    rest = sorted(
        (key for key in claims if not key.startswith("pipes.")),
        key=lambda key: key.partition(".")[0] if "." in key else "",
    )
    top = [key for key in rest if "." not in key]
    for key in top:
        yield key, _one(claims[key])
    for pipe, fields in pipes.items():
        values = ", ".join(f"{field} = {_value(claim.value)}" for field, claim in fields)
        first = fields[0][1]
        yield f"pipes.{pipe}", f"{values}, kind = {_quoted(first.kind)}, source = {_quoted(first.source)}"
    for key in rest[len(top) :]:
        yield key, _one(claims[key])


def _one(claim: Claim) -> str:
    return f"value = {_value(claim.value)}, kind = {_quoted(claim.kind)}, source = {_quoted(claim.source)}"


def _value(value: object) -> str:
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    """A basic string of TOML, whose escapes are JSON's."""
    return json.dumps(text, ensure_ascii=False)
