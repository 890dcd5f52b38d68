"""A launch on the emulator: from its parameters in a constant bank to the chunks of its trace.

Mental model: an :class:`Emulation` is one launch about to run. It maps what belongs to the module (globals, constants,
the heap) into device memory, and :meth:`Emulation.run` runs all blocks, closing a chunk of the trace whenever the log
has to be emptied. Who watches is told by :mod:`gpusim.emulator.listeners`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gpusim.emulator.block_scheduler import BlockScheduler, LoggedBlocks, Slot
from gpusim.emulator.chunks import close_chunk, new_log
from gpusim.emulator.clusters import ClusterOrder, work_of
from gpusim.emulator.device_launches import DeviceLaunch
from gpusim.emulator.events import watch_table
from gpusim.emulator.faults import ResidentBlocks, explain
from gpusim.emulator.host_calls import PRINT_BYTES, Heap, HostCalls
from gpusim.emulator.listeners import Listener
from gpusim.emulator.prepare import PARAMETERS_ADDRESS, prepare
from gpusim.emulator.state import another_file, make_machine, make_state, release
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.binary.cubin import CONSTANTS_ADDRESS, GLOBALS_ADDRESS, GRID_WORKSPACE_ADDRESS
from gpusim.launch.instruction_limit import DEFAULT_INSTRUCTION_LIMIT
from gpusim.launch.kernel_launch import KernelLaunch
from gpusim.launch.memory import Allocation, DeviceMemory
from gpusim.trace.parts import WholeBlocks
from gpusim.trace.record import Chunk, Program

#: A chunk of the trace holds about this many warps.
CHUNK_WARPS = 1 << 16
#: What ``this_grid().sync()`` of CUDA C++ counts arrivals in: its size and the barrier, 4 bytes each (grid_workspace of
#: cooperative_groups/details/helpers.h); the driver gives more, which nothing here reads.
GRID_WORKSPACE_BYTES = 64
#: The log starts with room for so many records and grows as it must.
_LOG_RECORDS = 1 << 18
#: Records of the log (runs, accesses, scattered rows) of a launch whose trace nobody wants: 0.3, 0.4 and 1 MiB, which
#: stay in the processor's caches.
_UNTRACED_LIMITS = (1 << 14, 1 << 14, 1 << 12)


class Emulation:
    """One run of ``launch`` on ``memory``; ``facts`` is what the trace says of it, ``program`` its code.

    ``module_globals``: uint8[global_bytes] that outlives the launch, as a loaded module's variables do; fresh ones when
    None. ``program_with_lines`` makes the program that an error is explained with, where the binary has no source
    lines. ``print_bytes``: size of the buffer that the kernel's ``printf`` fills. ``module_constants``: what the
    module's constant variables (bank 3) hold now, uint8. ``heap``: what kernels allocate from, if it outlives the
    launch. ``set_condition``: serves cudaGraphSetConditional (handle, value), False for a handle that there is not.
    ``shared_globals``: (offset, uint8[bytes]) of variables in ``module_globals`` that lie elsewhere. ``without_data``:
    what products and bulk copies bring does not matter, so they bring nothing. Raises UnsupportedOpcodeError, and
    CompileError for a damaged cubin.
    """

    def __init__(
        self,
        launch: KernelLaunch,
        memory: DeviceMemory,
        instruction_limit: int = DEFAULT_INSTRUCTION_LIMIT,
        module_globals: np.ndarray | None = None,
        program_with_lines: Callable[[], Program] | None = None,
        print_bytes: int = PRINT_BYTES,
        module_constants: np.ndarray | None = None,
        heap: Heap | None = None,
        set_condition: Callable[[int, int], bool] | None = None,
        without_data: bool = False,
        shared_globals: Sequence[tuple[int, np.ndarray]] = (),
    ):
        self.launch, self.memory = launch, memory
        self._program_with_lines = program_with_lines
        self.prepared = prepared = prepare(launch.binary)
        image = prepared.image
        if module_globals is None:
            module_globals = np.frombuffer(bytearray(image.global_data), np.uint8)
        self.module_globals, self._shared_globals = module_globals, shared_globals
        self._constants = bytes(image.constants.get(3, b"")) if module_constants is None else module_constants.tobytes()
        self._host = HostCalls(launch.binary.name, image.externals, print_bytes, heap, image.launched, set_condition)
        self._own = self._map_module()
        self.facts = launch.describe(memory)
        warps = min(self.facts.blocks, self._chunk_blocks()) * self.facts.warps_per_block
        records = min(_LOG_RECORDS, max(1024, 16 * warps))
        machine = make_machine(prepared, launch, memory, new_log(records, records, 1024), self._constants)

        takes_over = bool((prepared.encoded.matrix[:, at.OP] == ops.NEXT_WORK).any())
        work = work_of(launch) if takes_over else None

        def open_slot(registers: np.ndarray | None = None) -> Slot:
            states, raw, backing = make_state(prepared, launch, instruction_limit, without_data=without_data)
            if work is not None:
                states[0]["work_host"] = work.ctypes.data
            return Slot(states, another_file(machine.registers) if registers is None else registers, raw, backing)

        self._scheduler = BlockScheduler(
            open_slot(machine.registers), machine, open_slot, self._host,
            ClusterOrder(launch.grid, launch.cluster, work), self.facts.cooperative,
        )  # fmt: skip

    @property
    def program(self) -> Program:
        """The kernel's code as the trace has it."""
        return self.prepared.program

    def run(self, listeners: Sequence[Listener] = ()) -> Iterator[Chunk]:
        """Run all blocks; yields chunks in block order. Memory is final when it is exhausted. ``listeners`` hear what
        happens. Raises what ends the launch: AddressError, DeadlockError, InstructionLimitError, ExecutionError."""
        for logged in self._run(listeners):
            chunk = self._chunk(logged)
            for listener in listeners:
                listener.chunk_closed(chunk)
            yield chunk

    def run_untraced(self, listeners: Sequence[Listener] = ()) -> int:
        """Run all blocks for what they leave in memory; returns the warp instructions of the trace that :meth:`run`
        would make, less the rounds of loops that wait for a time, for which the clock is put forward. ``listeners``
        hear of everything but chunks. Raises what :meth:`run` does."""
        scheduler, executed = self._scheduler, 0
        scheduler.limit_log(_UNTRACED_LIMITS)
        scheduler.hurry()
        for _ in self._run(listeners):
            executed += int((scheduler.machine.runs[: scheduler.used()[at.RUNS], at.RUN_COUNT] & at.RUN_LENGTH).sum())
        return executed

    def launches(self) -> list[DeviceLaunch]:
        """What the kernel has launched itself; it has not run yet."""
        return self._host.launches()

    @property
    def heap(self) -> Heap:
        """What the kernel allocates from."""
        return self._host.heap

    @property
    def repeatable(self) -> bool:
        """Whether the same launch on the same memory does the same, seen from outside: it neither prints nor
        allocates."""
        return not self._host.lasting

    def _run(self, listeners: Sequence[Listener]) -> Iterator[LoggedBlocks]:
        """Run all blocks; the log holds what is yielded until the next is asked for."""
        self._scheduler.listen(listeners, lambda: watch_table(self.program, self.prepared.encoded.matrix))
        try:
            yield from self._logged()
            left = self._host.left()
            for listener in listeners:
                listener.heap_left(left)
            held, first, columns = self._scheduler.tensor_memory_left()
            if held:
                for listener in listeners:
                    listener.tensor_memory_left(held, first, columns)
            slot = self._scheduler.first
            release(self.prepared, slot.states, slot.raw, slot.registers)
        finally:
            self._host.dropped += self._scheduler.dropped_prints()
            self.close()

    def run_block(self, block: int) -> Chunk:
        """Run block number ``block`` alone, at any time before :meth:`close`; the chunk that it alone makes. Raises as
        :meth:`run`."""
        joined = WholeBlocks()
        whole = [done for logged in self._logged(block, block + 1) for done in joined.add(self._chunk(logged))]
        return whole[0]

    def close(self) -> None:
        """Print what the kernel has printed and take the module out of memory again; :meth:`run` does so at its end."""
        self._host.flush()
        self.memory.remove(self._own)

    def _chunk_blocks(self) -> int:
        if self.facts.cooperative:
            return self.facts.blocks  # they end together
        return max(1, CHUNK_WARPS // self.facts.warps_per_block)

    def _map_module(self) -> list[Allocation]:
        """Map the module's globals, bank 3 for pointers to constants, and the heap."""
        image = self.prepared.image
        own = self._host.map(self.memory)
        if image.global_bytes:
            own += self._map_globals()
        if self._constants:
            data = np.frombuffer(bytearray(self._constants), np.uint8)
            own.append(self.memory.add_at(CONSTANTS_ADDRESS, data, "constant memory"))
        if self.launch.parameters and self.prepared.points_at_parameters:
            data = np.frombuffer(bytearray(self.launch.parameters), np.uint8)
            own.append(self.memory.add_at(PARAMETERS_ADDRESS + image.parameter_base, data, "kernel parameters"))
        if self.launch.binary.cooperative:
            workspace = np.zeros(GRID_WORKSPACE_BYTES, np.uint8)
            own.append(self.memory.add_at(GRID_WORKSPACE_ADDRESS, workspace, "workspace of the cooperative launch"))
        return own

    def _map_globals(self) -> list[Allocation]:
        """Map the module's globals, in pieces where some of them lie elsewhere."""
        pieces, end = [], 0
        for offset, data in sorted(self._shared_globals, key=lambda each: each[0]):
            pieces += [(end, self.module_globals[end:offset]), (offset, data)]
            end = offset + len(data)
        pieces.append((end, self.module_globals[end:]))
        return [
            self.memory.add_at(GLOBALS_ADDRESS + offset, data, "module globals") for offset, data in pieces if len(data)
        ]

    def _chunk(self, logged: LoggedBlocks) -> Chunk:
        scheduler = self._scheduler
        return close_chunk(
            scheduler.used(),
            scheduler.machine,
            logged.first_block,
            logged.blocks,
            self.facts.warps_per_block,
            logged.open_blocks,
            scheduler.signals_used(),
            scheduler.bulks(),
        )

    def _logged(self, first: int = 0, end: int | None = None) -> Iterator[LoggedBlocks]:
        facts, scheduler = self.facts, self._scheduler
        yield from scheduler.run(facts.blocks if end is None else end, self._chunk_blocks(), first)
        if scheduler.failed is not None:
            program = self.program if self._program_with_lines is None else self._program_with_lines()
            states = [slot.states[0] for slot in scheduler.resident]
            resident = ResidentBlocks(states, scheduler.ended, scheduler.spinning) if states else None
            raise explain(
                scheduler.status,
                scheduler.failed.states[0],
                program,
                self.memory,
                facts.kernel,
                resident,
                self.prepared.image.functions,
            )
