"""A device on which a case's launches are made again and again, as a program that times them makes them.

Mental model: arrays keep their addresses and modules their variables from call to call, so that whatever a kernel
leaves behind for the next one is there: a flag in an array, a counter in a ``__device__`` variable. Each call says what
it touched and what its arrays hold.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpusim.capturing import chosen
from gpusim.claims.touched import Touched, touched_by, untouched
from gpusim.emulator.emulation import Emulation
from gpusim.emulator.prepare import prepare
from gpusim.frontend.registry import front_end_of, grid_arguments
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.target import make_target
from gpusim.launch.arrays import HostArrays
from gpusim.launch.instruction_limit import DEFAULT_INSTRUCTION_LIMIT
from gpusim.launch.kernel_launch import make_launch
from gpusim.launch.memory import Allocation, DeviceMemory
from gpusim.trace.record import Trace


@dataclass(frozen=True)
class Call:
    """A call of a case: ``timed`` and ``untimed`` launches' traces; what each kind ``touched``, by the device's arrays
    as they are numbered; ``contents`` of the arrays behind it."""

    timed: tuple[Trace, ...] = field(repr=False)
    untimed: tuple[Trace, ...] = field(repr=False)
    touched: Touched
    touched_untimed: Touched
    contents: tuple[np.ndarray, ...] = field(repr=False)

    @property
    def warp_instructions(self) -> int:
        """Of the timed launches."""
        return sum(chunk.warp_instructions for trace in self.timed for chunk in trace.chunk_list)


class ClaimDevice:
    """A GPU of ``spec`` with an empty memory; ``limit``: warp instructions of a launch."""

    def __init__(self, spec: GpuSpec, limit: int = DEFAULT_INSTRUCTION_LIMIT) -> None:
        self._spec, self._target, self.limit = spec, make_target(spec), limit
        self.memory = DeviceMemory()
        self._globals: dict[str, np.ndarray] = {}

    @property
    def arrays(self) -> list[Allocation]:
        """What lies on the device, in the order of addresses."""
        return self.memory.sorted()

    def contents(self) -> tuple[np.ndarray, ...]:
        """What the arrays hold now, uint8[size] each."""
        return tuple(view_of(allocation).copy() for allocation in self.arrays)

    def place(self, case: Any) -> None:
        """Give the arrays of a case's launches their addresses, without running any. (Of a generator's only those of
        the first.)"""
        for launch in case.launches[:1] if not isinstance(case.launches, (list, tuple)) else case.launches:
            kernel = self._chosen(launch)
            front_end = front_end_of(kernel)
            binary = front_end.compile(kernel, launch.args, self._target.capability)
            arrays = HostArrays(self.memory, private=False, kernel=binary.name)
            try:
                front_end.pack(kernel, binary, launch.args, arrays)
            finally:
                arrays.fail()  # what was copied for this launch alone goes; arrays stay

    def call(self, case: Any) -> Call:
        """Make every launch of ``case``. Raises what capturing raises."""
        timed, untimed = [], []
        for launch in case.launches:
            (timed if launch.timed else untimed).append(self._launch(launch))
        allocations = self.arrays
        return Call(
            tuple(timed), tuple(untimed), _joined(timed, allocations), _joined(untimed, allocations), self.contents()
        )

    def _chosen(self, launch: Any) -> Any:
        return chosen(
            launch.kernel, launch.grid, launch.block, launch.args, gpu=self._spec, shared_bytes=launch.shared_bytes,
            memory=self.memory, instruction_limit=self.limit, cluster=getattr(launch, "cluster", None),
        )  # fmt: skip

    def _launch(self, launch: Any) -> Trace:
        grid: Any = launch.grid
        kernel = self._chosen(launch)
        front_end = front_end_of(kernel)
        binary = front_end.compile(kernel, launch.args, self._target.capability)
        prepare(binary)
        named = grid_arguments(kernel, binary, launch.args) if callable(grid) else None
        made = make_launch(
            binary,
            self._target,
            launch.grid,
            launch.block,
            launch.shared_bytes,
            named,
            getattr(launch, "cluster", None),
        )
        arrays = HostArrays(self.memory, private=False, kernel=binary.name, blocks=math.prod(made.grid))
        parameters = front_end.pack(kernel, binary, launch.args, arrays)
        image = binary.image
        variables = self._globals.setdefault(image.sha256, np.frombuffer(bytearray(image.global_data), np.uint8))
        emulation = Emulation(
            replace(made, parameters=parameters), self.memory, self.limit,
            module_globals=variables if variables.size else None,
        )  # fmt: skip
        try:
            trace = Trace.collect(emulation.program, emulation.facts, emulation.run())
            front_end.raise_pending(binary, emulation.module_globals)
        except BaseException:
            arrays.fail()
            raise
        finally:
            emulation.close()
        arrays.succeed()
        return trace


def view_of(allocation: Allocation) -> np.ndarray:
    """The bytes of an allocation where they lie, uint8[size]."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * allocation.size).from_address(allocation.host))


def _joined(traces: Sequence[Trace], allocations: Sequence[Allocation]) -> Touched:
    found = untouched(allocations)
    for trace in traces:
        found = found.joined(touched_by(trace, allocations))
    return found
