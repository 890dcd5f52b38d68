"""Kernels that move and convert data and multiply nothing: norms, rotary embedding, activations, look-ups, sampling,
copies, quantisation.

Mental model: a launch of blocks, a row each; an SM holds some of them, they come in waves. Few blocks are bound by
their own latency, many by what DRAM and L2 deliver. What fits into L2 is found there when the kernel before left it
there. Figures are in ``memory.toml``.
"""

from __future__ import annotations

import functools
import math
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from gpusim.energy.power import limited_by_power, slowed_beside_dram
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.bands import operator_band
from gpusim.tile.library import LIKE, kernels_of
from gpusim.tile.machine import loaded_bytes_per_cycle, tile_machine
from gpusim.tile.projection import Projection

_FILE = Path(__file__).with_name("memory.toml")
KINDS = ("norm", "rotary", "activation", "embedding", "sampling", "copy", "softmax", "quantize")


@dataclass(frozen=True)
class MemoryOp:
    """``read_bytes``, ``written_bytes``: of the launch, each byte once; ``rows``: that are worked on apart, a block
    each (0: as many blocks as the bytes fill); ``cold``: what is read lies in DRAM even where it would fit into L2;
    ``dirty``: L2 is full of lines that have to be written back before others take their places, as a benchmark leaves
    it that writes over all of it."""

    kind: str
    read_bytes: float
    written_bytes: float
    rows: int = 0
    cold: bool = False
    dirty: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SpecError(f"a memory operator's kind is {self.kind!r}: known are {', '.join(KINDS)}")
        for name in ("read_bytes", "written_bytes", "rows"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 <= value <= 1e18):
                raise SpecError(f"a memory operator's {name} is {value}, not between 0 and 1e18")


@dataclass(frozen=True)
class MemoryLibrary:
    """The figures of ``memory.toml`` for one generation, units in the names; shares are of 1."""

    launch_ns: float
    start_cycles: float
    block_bytes_per_cycle: float
    blocks_per_sm: int
    block_bytes: float
    dram_share: float
    l2_rate_share: float
    l2_share: float


@functools.cache
def memory_library_of(generation: str) -> MemoryLibrary:
    """The figures of a GPU generation, or of the one that it is taken to be like (:data:`gpusim.tile.library.LIKE`).
    Raises SpecError for a generation of which nothing is known."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    name = generation if generation in table else LIKE.get(generation, "")
    if name not in table:
        raise SpecError(f"no memory kernels are known for generation {generation!r}: known are ampere, hopper")
    expected = {each.name for each in fields(MemoryLibrary)}
    if set(table[name]) != expected:
        raise SpecError(f"{_FILE.name}, {name}: missing or unknown: {', '.join(sorted(set(table[name]) ^ expected))}")
    return MemoryLibrary(**table[name])


@functools.cache
def _kinds() -> tuple[dict[str, float], dict[str, float]]:
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return table["passes"], table["flops_per_byte"]


def project_memory(
    spec: GpuSpec, op: MemoryOp, library: MemoryLibrary | None = None, limit_watts: float | None = None
) -> Projection:
    """Time of ``op`` on ``spec`` as a node of a CUDA graph; ``library``: other figures than the generation's own;
    ``limit_watts``: another power limit than the board's (``inf``: none)."""
    used = library or memory_library_of(kernels_of(spec))
    machine = tile_machine(spec, "fp16")
    passes, flops_per_byte = _kinds()
    passed_bytes = op.read_bytes * passes[op.kind] + op.written_bytes
    blocks = op.rows or max(1, math.ceil(passed_bytes / used.block_bytes))
    places = machine.sm_count * used.blocks_per_sm
    waves = -(-blocks // places)
    found_bytes = used.l2_share * machine.l2_bytes
    footprint_bytes = op.read_bytes + op.written_bytes
    missed = min(1.0, max(0.0, footprint_bytes / found_bytes - 1.0)) if footprint_bytes else 0.0
    # What is written and fits stays in L2 for the next; all that is read more than once is found there the second time.
    dram_bytes = op.read_bytes * (1.0 if op.cold else missed)
    if op.dirty and footprint_bytes:
        # What is read takes the places of dirty lines too, until those that L2 was full of are gone; then lines of this
        # kernel are displaced, of which those that it wrote are dirty.
        full_bytes = min(footprint_bytes, found_bytes)
        dram_bytes += full_bytes + (footprint_bytes - full_bytes) * op.written_bytes / footprint_bytes
    else:
        dram_bytes += op.written_bytes * missed
    # An SM's blocks share its port to L2.
    sharing = min(used.blocks_per_sm, -(-blocks // machine.sm_count))
    port_rate = min(used.block_bytes_per_cycle, loaded_bytes_per_cycle(spec) / sharing)
    bounds = {
        "DRAM": used.start_cycles + dram_bytes / (machine.dram_bytes_per_cycle * used.dram_share),
        "L2": used.start_cycles + passed_bytes / (machine.l2_bytes_per_cycle * used.l2_rate_share),
        "latency": waves * (used.start_cycles + passed_bytes / blocks / port_rate),
    }
    # Waves of small blocks overlap: where many come, an SM's next block starts as each one ends.
    if waves > 1:
        bounds["latency"] = blocks / places * (used.start_cycles + passed_bytes / blocks / port_rate)
    limiter = max(bounds, key=lambda unit: bounds[unit])
    launch_seconds = 1e-9 * used.launch_ns
    vector_flops = op.read_bytes * flops_per_byte[op.kind]

    def seconds_at(clock_share: float) -> float:
        return max(bounds["DRAM"], bounds["L2"] / clock_share, bounds["latency"] / clock_share) / machine.clock_hz

    limited_seconds = slowed_beside_dram(spec, limit_watts, seconds_at, "", 0.0, dram_bytes, passed_bytes, vector_flops)
    seconds = launch_seconds + limited_seconds
    if launch_seconds > seconds / 2:
        limiter = "launch"
    elif limited_by_power(limited_seconds, seconds_at(1.0)):
        limiter = "power"
    band = operator_band(op.kind, kernels_of(spec), footprint_bytes)
    return Projection(
        operator=f"{op.kind} of {op.read_bytes / 1e6:.4g} MB into {op.written_bytes / 1e6:.4g} MB", gpu=spec.name, seconds=seconds,
        low_seconds=seconds / band.factor, high_seconds=seconds * band.factor, validated=band.validated,
        reason=band.reason, limiter=limiter,
        vector_flops=vector_flops, dram_bytes=dram_bytes, l2_bytes=passed_bytes,
    )  # fmt: skip
