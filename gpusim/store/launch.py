"""A simulated launch as it is kept: cycles, counters, and where the warp-cycles went, instruction by instruction.

Mental model: what :class:`gpusim.engine.result.LaunchResult` says, as plain values that outlive the program that
made them: stall reasons and counters go by name, so that a later gpusim which has more of them still reads this;
GPU, machine code and trace go by hash, so that two results say for certain whether they are of the same thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpusim.engine.result import LaunchResult
from gpusim.gpus.spec import GpuSpec
from gpusim.io.source_line import source_text
from gpusim.model.counters import WORK_NAMES
from gpusim.model.stall_reasons import STALL_NAMES
from gpusim.store.hashes import gpu_hash


@dataclass(frozen=True)
class Instruction:
    """One SASS instruction: byte ``address`` in the kernel's code, source ``file`` and ``line`` (empty and 0 where
    unknown), ``text``; ``stalls`` reason -> warp-cycles and ``work`` counter -> count, both without their zeros."""

    address: int
    file: str
    line: int
    text: str
    stalls: Mapping[str, int]
    work: Mapping[str, int]

    @property
    def warp_cycles(self) -> int:
        """Resident warp-cycles charged here, issuing included."""
        return sum(self.stalls.values())


@dataclass(frozen=True)
class SimulatedLaunch:
    """One launch on one described GPU.

    ``kernel``: the suite's name where it is one, else the function's. ``shape``: axes as ``m=64,n=128``, empty where
    unknown. ``launch``: index among the timed launches of that kernel and shape. ``cycles``: SM cycles from start to
    end. ``stalls``: reason -> warp-cycles; they add up to the resident warp-cycles, as do those of
    ``instructions`` by reason. ``least_cycles``: unit -> lower bound, empty where not computed. ``source``: file,
    line and text when the launch was simulated, of the lines that instructions name and that could be read.
    """

    kernel: str
    gpu: str
    cycles: int
    clock_hz: float
    shape: str = ""
    launch: int = 0
    function: str = ""
    gpu_hash: str = ""
    cubin_hash: str = ""
    trace_hash: str = ""
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    registers_per_thread: int = 0
    shared_bytes: int = 0
    stalls: Mapping[str, int] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    least_cycles: Mapping[str, float] = field(default_factory=dict)
    instructions: tuple[Instruction, ...] = field(default=(), repr=False)
    source: tuple[tuple[str, int, str], ...] = field(default=(), repr=False)

    def source_line(self, file: str, line: int) -> str:
        """The text of a source line as it was then; empty where it was not kept."""
        return self._source_lines.get((file, line), "")

    @cached_property
    def _source_lines(self) -> dict[tuple[str, int], str]:
        return {(file, line): text for file, line, text in self.source}

    @property
    def time_us(self) -> float:
        """Microseconds at the described SM clock."""
        return self.cycles / self.clock_hz * 1e6

    @property
    def warp_cycles(self) -> int:
        """Resident warp-cycles, all stall reasons together."""
        return sum(self.stalls.values())


def launch_record(
    result: LaunchResult,
    spec: GpuSpec,
    *,
    kernel: str = "",
    shape: str = "",
    launch: int = 0,
    trace_hash: str = "",
    least_cycles: Mapping[str, float] | None = None,
) -> SimulatedLaunch:
    """The record of ``result``, a launch simulated on ``spec``. ``kernel`` defaults to the function's name."""
    facts = result.launch
    instructions = _instructions(result)
    return SimulatedLaunch(
        kernel=kernel or result.kernel,
        gpu=spec.name,
        cycles=int(result.cycles),
        clock_hz=float(spec.clock_hz),
        shape=shape,
        launch=launch,
        function=result.kernel,
        gpu_hash=gpu_hash(spec),
        cubin_hash=facts.cubin_sha256,
        trace_hash=trace_hash,
        grid=facts.grid,
        block=facts.block,
        registers_per_thread=facts.registers_per_thread,
        shared_bytes=facts.shared_bytes,
        stalls={reason: int(cycles) for reason, cycles in result.stalls.items()},
        counters={name: float(value) for name, value in result.counters.items()},
        least_cycles=dict(least_cycles or {}),
        instructions=instructions,
        source=_source(instructions),
    )


def _instructions(result: LaunchResult) -> tuple[Instruction, ...]:
    program, code = result.program, result.program.instructions
    columns = (code["address"], code["file"], code["line"], result.stalls_by_instruction, result.work_by_instruction)
    return tuple(
        Instruction(
            address,
            program.files[file] if 0 <= file < len(program.files) else "",
            line,
            text,
            _without_zeros(STALL_NAMES, stalls),
            _without_zeros(WORK_NAMES, work),
        )
        for address, file, line, stalls, work, text in zip(
            *(column.tolist() for column in columns), program.texts, strict=True
        )
    )


def _source(instructions: Iterable[Instruction]) -> tuple[tuple[str, int, str], ...]:
    places = sorted({(each.file, each.line) for each in instructions})
    return tuple((*place, text) for place in places if (text := source_text(*place)))


def _without_zeros(names: tuple[str, ...], values: list[int]) -> dict[str, int]:
    return {name: value for name, value in zip(names, values, strict=False) if value}
