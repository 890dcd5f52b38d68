"""A GPU file made from a datasheet and from the description of a related GPU, by rules.

Mental model: what the datasheet states is taken from it; what follows from it (channels of a memory bus, slices of L2,
cycles of a tensor core) is computed; everything else is the related GPU's, which the new file inherits. Each value says
which it is: ``datasheet`` for what is stated or is arithmetic on it, ``guess`` for a rule. A file made so is a start:
measurements replace its guesses one by one.

Rules, with their reasons:

- Latencies beyond the SM stay in nanoseconds, SM-side ones in cycles: crossbar and L2 have clocks of their own (the RTX
  4090, described like the L40, has both its latencies within 8 %). Of what DRAM adds to them a part stays in
  nanoseconds, that of the DRAM and its controller; the rest is the chip's and follows its clock.
- What L2 delivers when all SMs read goes by the SMs, not by the slices: each takes in as many bytes a clock as the
  related GPU's, by the width of its port (:mod:`gpusim.gpus.capability_rules`); 34.7 to 38 on A100 and Hopper, 16.2 and
  16.7 on L40 and A40, whose slices deliver 48 and 29. No slice gives more than its width.
- What starts a launch and its blocks keeps its time, not its cycles: from 1.41 to 2.49 GHz the described GPUs need 370
  to 500 ns to start a launch and 170 to 215 ns from a block to the next.
- L2 has a slice for each 64 bits of an HBM bus (16 a stack: GA100, GH100 and GB100 alike) and for each 8 of GDDR
  (TU104, GA102, AD102 and GB202 alike).
- How many warps, blocks and bytes an SM holds is what the programming guide says of the capability.
- Two FP64 units an SM have a latency that the related GPU's full-rate units do not show: 64 cycles, as published for
  two generations.
- What a datasheet rates are the products of the newest unit: tensor memory's, warp groups' or warps'
  (:mod:`gpusim.gpus.make_tensor`).
- NVLink and PCIe as the datasheet rates them; what NCCL makes of them as on the described GPUs
  (:mod:`gpusim.gpus.make_links`).
- A DRAM channel is as wide as its standard has it; the reachable share of the pin rate is that of the related GPU for
  the same kind of memory, else what the curves of this kind gave.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gpusim.errors import SpecError, UnknownGpuError, UsageError
from gpusim.gpus.capability_rules import LIMITS
from gpusim.gpus.consistency import check_consistency
from gpusim.gpus.datasheet import Datasheet
from gpusim.gpus.datasheet_doubts import check_cores, check_units, doubts
from gpusim.gpus.load import Claim, build, claims_of, locate
from gpusim.gpus.make_links import link_claims
from gpusim.gpus.make_memory import memory_claims, network_claims
from gpusim.gpus.make_tensor import even, tensor_claims
from gpusim.gpus.memory_kinds import MEMORY_OF
from gpusim.gpus.spec import GpuSpec

#: Words for a generation -> the GPU of it that is described best.
GENERATIONS = {
    "volta": "v100", "turing": "t4", "ampere": "a100_80gb", "ga100": "a100_80gb", "ga10x": "a40", "ada": "l40", "hopper": "h200",
    "blackwell": "b200", "gb20x": "rtx5090",
}  # fmt: skip
#: Issue to dependent issue where two FP64 units serve an SM. Sources: accel-sim, config SM86_RTX3070 (64); arXiv
#: 2507.10789, RTX 5080 (63.57).
_FEW_FP64_LATENCY_CYCLES = 64


class Made(NamedTuple):
    """A new GPU: the text of its file, its checked spec, and what of the datasheet's figures may be another's."""

    text: str
    spec: GpuSpec
    doubt: str = ""


def make_gpu(name: str, sheet: Datasheet, like: str | Path, inherited: Mapping[str, Claim] | None = None) -> Made:
    """The GPU file called ``name`` of the product ``sheet`` describes, on top of the GPU (or generation, or file)
    ``like``;
    ``inherited``: other claims than ``like``'s own, for who holds some of them out.

    Raises UsageError for a name that no file can have, UnknownGpuError for ``like``, SpecError where the datasheet's
    figures make no machine."""
    if not name.isidentifier() or not name.isascii():
        raise UsageError(f"{name!r} is no name for a GPU file: letters, digits and _ only, as in rtx_a6000")
    parent = GENERATIONS.get(str(like).casefold(), like)
    try:
        path = locate(parent)
    except UnknownGpuError as error:
        raise UnknownGpuError(f"{error}; or a generation: {', '.join(GENERATIONS)}") from None
    check_units(sheet)
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
    text = _text(sheet, path.stem if built_in else str(parent), claims)
    return Made(text, spec, doubts(sheet, base, path.stem))


def _claims(sheet: Datasheet, base: GpuSpec, like: str, memory: str) -> Iterator[tuple[str, Claim]]:
    """(key, claim) of each value that the new file states. ``memory``: the kind of the related GPU's, empty where it is
    not known."""

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
    yield from _pipes(sheet, base, clock_hz, stated, ruled)
    faster = clock_hz / base.clock_hz
    yield from network_claims(sheet, base, like, ruled)
    for key in ("start_cycles", "end_cycles", "block_turnaround_cycles"):
        cycles = round(getattr(base.launch, key) * faster)
        if cycles != getattr(base.launch, key):
            yield ruled(f"launch.{key}", cycles, f"{like}'s time, at this clock")
    for key, interval in (
        ("atomic_interval_ns", base.l2.atomic_interval_ns),
        ("atomic_sector_ns", base.l2.atomic_sector_ns),
        ("tag_interval_ns", base.l2.tag_interval_ns),
    ):
        yield ruled(f"l2.{key}", round(interval / faster, 3), f"{like}'s, by the ratio of the clocks")
    yield from memory_claims(sheet, base, like, memory, stated, ruled)
    if sheet.board_watts is not None and sheet.board_watts != base.board.power_limit_watts:
        yield stated("board.power_limit_watts", sheet.board_watts, "maximum power")
    yield from link_claims(sheet, base, stated, ruled)


def _pipes(sheet: Datasheet, base: GpuSpec, clock_hz: float, stated, ruled) -> Iterator[tuple[str, Claim]]:
    """Rates of the cores and of the tensor cores, as cycles and as multiply-adds a cycle."""
    sub_cores = sheet.sm_count * base.sm.sub_cores
    rates = sheet.dense_tflops

    def macs(teraflops: float) -> float:
        """Multiply-adds a cycle of one sub-core."""
        return teraflops * 1e12 / 2 / (sub_cores * clock_hz)

    check_cores(sheet, macs)
    if rates.fp32 is not None:
        interval = max(1, round(32 / macs(rates.fp32)))
        yield stated("pipes.fma.interval_cycles", interval, f"{rates.fp32:g} TFLOPS FP32")
        yield stated("pipes.fma.latency_cycles", base.pipes["fma"].latency_cycles, "latency as of the related GPU")
    if rates.fp64 is not None:
        few = macs(rates.fp64) < 4  # fewer lanes than a warp's eighth: one unit serves the SM
        lanes = even(macs(rates.fp64) * (base.sm.sub_cores if few else 1))
        pipe = base.pipes["fp64"]
        yield stated("pipes.fp64.interval_cycles", max(1, round(32 / lanes)), f"{rates.fp64:g} TFLOPS FP64")
        latency = _FEW_FP64_LATENCY_CYCLES if few and not pipe.shared_by_sm else pipe.latency_cycles
        yield stated("pipes.fp64.latency_cycles", latency, "latency as of the related GPU")
        yield stated("pipes.fp64.shared_by_sm", few, "units an SM")
        if pipe.fewer_registers_cycles and not few:
            yield stated("pipes.fp64.fewer_registers_cycles", 0, "units a sub-core")
    if rates.exponentials is not None:
        # Units come in powers of two: 10.7 of a B300 are 37 a cycle of its SM at the boost clock, which are 32.
        lanes = 2 * macs(rates.exponentials)
        interval = 1 << max(0, round(math.log2(32 / lanes)))
        yield stated("pipes.mufu.interval_cycles", interval, f"{rates.exponentials:g} tera exponentials a second")
        yield stated("pipes.mufu.latency_cycles", base.pipes["mufu"].latency_cycles, "latency as of the related GPU")
    yield from tensor_claims(sheet, base, macs, stated, ruled)


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
