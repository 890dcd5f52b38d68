"""The public entry of capture: run a Numba kernel's machine code on the CPU and record what it did.

Mental model: :func:`capture` is a kernel launch. It builds the cubin that a GPU would load, refuses what the
GPU would refuse, runs every block in the interpreter with the arrays written in place, and returns the
:class:`~gpusim.trace.record.Trace`. A launch that fails raises one error and leaves the arrays untouched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from gpusim.emulator.block_scheduler import Residents, Slot
from gpusim.emulator.chunks import close_chunk, new_log
from gpusim.emulator.faults import Company, explain
from gpusim.emulator.host_calls import HostCalls
from gpusim.emulator.memory import LOCAL_WINDOW, SHARED_WINDOW, Allocation, DeviceMemory
from gpusim.emulator.prepare import Prepared, prepare
from gpusim.emulator.state import another_file, make_machine, make_state, release, toolchain
from gpusim.errors import UsageError
from gpusim.frontend.numba.arguments import Arguments
from gpusim.frontend.numba.exceptions import raise_pending
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.binary.cubin import CONSTANTS_ADDRESS, GLOBALS_ADDRESS
from gpusim.isa.target import Target, check_launch, make_target, shape
from gpusim.sanitizer.findings import Finding, OrderCheck, parse_checks
from gpusim.sanitizer.memcheck import MemoryCheck
from gpusim.trace.record import Chunk, Launch, Program, Trace

#: Warp instructions after which a launch counts as one that never ends.
DEFAULT_INSTRUCTION_LIMIT = 10_000_000_000
#: A chunk of the trace holds about this many warps.
CHUNK_WARPS = 1 << 16
#: The log starts with room for so many records and grows as it must.
_LOG_RECORDS = 1 << 18

_toolchain = lru_cache(maxsize=1)(toolchain)


def capture(
    kernel: Any,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    args: tuple,
    *,
    gpu: str | GpuSpec | tuple[int, int] = "h200",
    shared_bytes: int = 0,
    memory: DeviceMemory | None = None,
    instruction_limit: int | None = None,
    to: str | os.PathLike[str] | None = None,
    check: Iterable[str] = (),
    progress: Callable[[str, int, int, int], None] | None = None,
) -> Trace:
    """Launch ``kernel[grid, block](*args)`` on the emulator and return its trace.

    ``args`` are typed as Numba types them at a launch; arrays are written in place. ``gpu`` is a GPU's name
    or spec, a capability ``(9, 0)`` or ``"sm_90"``. ``shared_bytes`` is dynamic shared memory. ``memory``
    keeps arrays at their device addresses over several captures. ``instruction_limit`` bounds the executed
    warp instructions. ``to`` is a trace file to write while the launch runs, in bounded memory; the returned
    trace then reads from it. Without it the trace stays in memory, coded once it is large. ``check``: any of
    "memory" and "race" (:mod:`gpusim.sanitizer.findings`); what they find is the trace's ``findings``, and an invalid
    access then ends its block, whose warps have no path in the trace, rather than the launch. ``progress`` is told now
    and then (kernel, blocks done, blocks in all, warp instructions so far).

    Raises UsageError, CompileError, ToolchainError, UnsupportedOpcodeError, LaunchError, AddressError,
    DeadlockError, InstructionLimitError, and OSError where ``to`` cannot be written; the arrays are then as
    before the call, and so is a file at ``to``. A kernel built with ``debug=True`` raises what a thread of it
    has raised, as Numba does after a launch.
    """
    checks = parse_checks(check)
    launch = _Launch(kernel, grid, block, args, gpu, shared_bytes, memory, instruction_limit)
    program, facts, chunks = launch.prepared.program, launch.facts, launch.run()
    if checks:
        checked = CheckedLaunch(launch.packed, checks)
        chunks = checked.watch(chunks)
    if progress is not None:
        chunks = _told(chunks, facts, progress)
    if to is None:
        trace = Trace.collect(program, facts, chunks)
    else:
        Trace(program, facts, chunks).save(to)
        trace = Trace.load(to)
    return replace(trace, findings=checked.findings()) if checks else trace


def _told(chunks: Iterable[Chunk], facts: Launch, progress: Callable[[str, int, int, int], None]) -> Iterator[Chunk]:
    """The chunks, after each of which ``progress`` hears how far the launch is."""
    instructions = 0
    for chunk in chunks:
        instructions += chunk.warp_instructions
        progress(facts.kernel, min(facts.blocks, chunk.first_block + chunk.blocks), facts.blocks, instructions)
        yield chunk


class _Launch:
    """One launch from arguments to chunks."""

    def __init__(
        self,
        kernel: Any,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        args: tuple,
        gpu: str | GpuSpec | tuple[int, int],
        shared_bytes: int,
        memory: DeviceMemory | None,
        instruction_limit: int | None,
    ):
        if not isinstance(args, (tuple, list)):
            raise UsageError(f"args must be a tuple of the kernel's arguments, not {type(args).__name__}")
        limit = DEFAULT_INSTRUCTION_LIMIT if instruction_limit is None else int(instruction_limit)
        if limit < 1:
            raise UsageError(f"instruction_limit must be positive, not {limit}")
        target = make_target(gpu)
        grid, block = shape(grid, "grid"), shape(block, "block")
        self.prepared: Prepared = prepare(kernel, tuple(args), target.capability)
        built = self.prepared.built
        refuse_impossible(self.prepared, target, grid, block, int(shared_bytes))
        own = DeviceMemory() if memory is None else memory
        self.arguments = Arguments(own, private=memory is None, kernel=built.name)
        self.arguments.add(built.argument_types, tuple(args), built.extensions)
        parameters = self.arguments.pack(self.prepared.image)
        self.globals = np.frombuffer(bytearray(self.prepared.image.global_data), np.uint8)
        self.packed = PackedLaunch(
            self.prepared, target, grid, block, int(shared_bytes), parameters, own, limit, self.globals
        )
        self.facts = self.packed.facts

    def run(self) -> Iterator[Chunk]:
        """Run all blocks; yields chunks in block order. The arrays are final when it is exhausted."""
        done = False
        try:
            yield from self.packed.run()
            raise_pending(self.prepared.built, self.prepared.image, self.globals)
            done = True
        finally:
            if done:
                self.arguments.succeed()
            else:
                self.arguments.fail()


def refuse_impossible(
    prepared: Prepared, target: Target, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_shared: int
) -> None:
    """Raise LaunchError for a launch that the GPU would refuse."""
    image = prepared.image
    check_launch(
        target, prepared.built.name, grid, block, image.registers_per_thread, image.shared_bytes, dynamic_shared
    )


class PackedLaunch:
    """One launch as the driver sees it: a prepared kernel, a shape, and the bytes of its parameters.

    ``parameters``: the parameter bank from its first byte. ``module_globals``: uint8[global_bytes] that
    outlives the launch, as a loaded module's globals do; fresh ones when None. ``program_with_lines`` makes
    the program that an error is explained with, where the prepared one has no source lines.
    """

    def __init__(
        self,
        prepared: Prepared,
        target: Target,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        parameters: bytes,
        memory: DeviceMemory,
        instruction_limit: int = DEFAULT_INSTRUCTION_LIMIT,
        module_globals: np.ndarray | None = None,
        program_with_lines: Callable[[], Program] | None = None,
    ):
        self._program_with_lines = program_with_lines
        self.prepared, self.target, self.grid, self.block = prepared, target, grid, block
        self.memory = memory
        image, built = prepared.image, prepared.built
        self.host = HostCalls(built.name, image.externals)
        self.own = self._map_module(module_globals)
        self.facts = Launch(
            kernel=built.name,
            capability=built.capability,
            grid=grid,
            block=block,
            registers_per_thread=image.registers_per_thread,
            shared_bytes=image.shared_bytes + dynamic_shared,
            local_bytes=image.local_bytes,
            cubin_sha256=image.sha256,
            gpu=target.gpu,
            toolchain=_toolchain(),
            shared_window=SHARED_WINDOW,
            local_window=LOCAL_WINDOW,
            allocations=tuple((a.base, a.size) for a in memory.sorted()),
            cooperative=built.cooperative,
        )
        warps = min(self.facts.blocks, self._chunk_blocks()) * self.facts.warps_per_block
        records = min(_LOG_RECORDS, max(1024, 16 * warps))
        log = new_log(records, records, 1024)
        machine = make_machine(prepared, grid, block, dynamic_shared, parameters, memory, log)

        def open_slot(registers: np.ndarray | None = None) -> Slot:
            states, raw, backing = make_state(prepared, target, grid, block, dynamic_shared, instruction_limit)
            return Slot(states, another_file(machine.registers) if registers is None else registers, raw, backing)

        self.residents = Residents(open_slot(machine.registers), machine, open_slot, self.host)

    def _chunk_blocks(self) -> int:
        if self.facts.cooperative:
            return self.facts.blocks  # they end together
        return max(1, CHUNK_WARPS // self.facts.warps_per_block)

    def _map_module(self, module_globals: np.ndarray | None) -> list[Allocation]:
        """Map the module's globals, bank 3 for pointers to constants, and the heap."""
        image = self.prepared.image
        own = self.host.map_heap(self.memory)
        if image.global_bytes:
            data = module_globals
            if data is None:
                data = np.frombuffer(bytearray(image.global_data), np.uint8)
            own.append(self.memory.add_at(GLOBALS_ADDRESS, data, "module globals"))
        if image.constants.get(3):
            data = np.frombuffer(bytearray(image.constants[3]), np.uint8)
            own.append(self.memory.add_at(CONSTANTS_ADDRESS, data, "constant memory"))
        return own

    def run(self) -> Iterator[Chunk]:
        """Run all blocks; yields chunks in block order. Memory is final when it is exhausted."""
        try:
            yield from self._chunks()
            slot = self.residents.first
            release(self.prepared, slot.states, slot.raw, slot.registers)
        finally:
            self.host.flush()
            self.memory.remove(self.own)

    def _chunks(self) -> Iterator[Chunk]:
        facts, residents = self.facts, self.residents
        for piece in residents.run(facts.blocks, self._chunk_blocks()):
            yield close_chunk(
                residents.used(),
                residents.machine,
                piece.first_block,
                piece.blocks,
                facts.warps_per_block,
                piece.open_blocks,
            )
        if residents.failed is not None:
            state = residents.failed.states[0]
            program = self.prepared.program
            if self._program_with_lines is not None:
                program = self._program_with_lines()
            states = [slot.states[0] for slot in residents.resident]
            company = Company(states, residents.ended, residents.spinning) if states else None
            raise explain(residents.status, state, program, self.memory, facts.kernel, company)


class CheckedLaunch:
    """A packed launch under ``checks``: watches its chunks and, for "memory", takes its bad accesses."""

    def __init__(self, packed: PackedLaunch, checks: frozenset[str]):
        program, image = packed.prepared.program, packed.prepared.image
        self._order = OrderCheck(program, packed.facts, image.shared_base, checks)
        self._memory = MemoryCheck(program, packed.facts, packed.memory)
        if "memory" in checks:
            packed.residents.on_fault = self._memory.fault

    def watch(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """The chunks, checked as they pass."""
        return self._order.watch(chunks)

    def findings(self) -> tuple[Finding, ...]:
        """What has been found, once the chunks are exhausted."""
        return (*self._memory.findings(), *self._order.findings())
