"""A case of the suite on a real GPU: its arrays in device memory, its launches bound.

Mental model: :class:`DeviceWorkload` does what a language's runtime does at a launch, once: compile, load the cubin
(the very bytes that capture emulates, hence the same hash), give each array a device allocation, pack the parameters
with the same code as capture. An array keeps its address over all launches of the case. :meth:`run` then enqueues the
launches in order, as often as is wanted; :meth:`restore` puts back what they changed.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpusim.capturing import chosen
from gpusim.cases.case_forms import GeneratedLaunches
from gpusim.cases.suite import complete_shape, make_case, shape_text
from gpusim.errors import SiliconError, UsageError
from gpusim.frontend.registry import front_end_of, grid_arguments
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.target import make_target
from gpusim.launch.arrays import HostArrays
from gpusim.launch.binary import KernelBinary
from gpusim.launch.kernel_launch import KernelLaunch, make_launch
from gpusim.launch.memory import Allocation, DeviceMemory
from gpusim.measure.builds import Builder, launch_key
from gpusim.measure.driver import DeviceFacts, Driver


class CheckFailed(Exception):
    """The GPU's results are not NumPy's; the message is the first difference."""


class _RealMemory(DeviceMemory):
    """Device memory that is really on a device, at the addresses that its driver gives."""

    def __init__(self, driver: Driver):
        super().__init__()
        self._driver = driver
        self.taken: list[Allocation] = []

    def add(self, host: int, size: int, label: str, owner: object) -> Allocation:
        for other in self.taken:
            if host < other.host + other.size and other.host < host + size:
                raise UsageError(
                    f"{label} overlaps {other.label}: a GPU would hold two copies; pass one array, or copies"
                )
        allocation = Allocation(self._driver.allocate(size), size, host, label, owner)
        self.taken.append(allocation)
        return allocation


@dataclass(frozen=True)
class BoundLaunch:
    """A launch that a driver holds ready. ``bound``: its handle, 0 for the helper that does nothing (and has no
    ``launch``); ``index``: among the timed launches of the case, or None for preparation."""

    bound: int
    index: int | None
    launch: KernelLaunch | None


class DeviceWorkload:
    """One kernel of the suite at one shape, ready to be launched. Raises what building and allocating raise."""

    def __init__(
        self,
        driver: Driver,
        facts: DeviceFacts,
        name: str,
        shape_: dict[str, Any],
        spec: GpuSpec | None,
        small: bool,
        builder: Builder,
    ):
        self._driver, self._facts, self._builder, self._spec = driver, facts, builder, spec
        self.name = name
        self.shape = shape_text(complete_shape(name, shape_, spec, small=small))
        self.case = make_case(name, shape_, spec, small=small)
        if isinstance(self.case.launches, GeneratedLaunches):
            raise UsageError(f"{name} yields its launches one by one: to be measured it must return them as a list")
        self._target = make_target(spec if spec is not None else facts.capability)
        self._memory = _RealMemory(driver)
        self._functions: dict[tuple[str, str], int] = {}
        self._arrays: list[HostArrays] = []
        self._pristine: list[tuple[Allocation, int]] = []
        self.launches: list[BoundLaunch] = []
        try:
            timed = 0
            for launch in self.case.launches:
                self.launches.append(self._bind(launch, timed if launch.timed else None))
                timed += launch.timed
            for allocation in self._memory.taken:
                driver.upload(allocation.base, _host_bytes(allocation))
        except BaseException:
            self.free()
            raise

    @property
    def label(self) -> str:
        """The request that makes this workload."""
        return f"{self.name}:{self.shape}" if self.shape else self.name

    def _bind(self, launch: Any, index: int | None) -> BoundLaunch:
        args = tuple(launch.args)
        key = launch_key(self.name, self.shape, len(self.launches))
        kernel, gpu = launch.kernel, self._spec or self._facts.capability
        kernel = chosen(kernel, launch.grid, launch.block, args, gpu=gpu, shared_bytes=launch.shared_bytes)
        front_end = front_end_of(kernel)
        binary = self._builder.build(kernel, args, self._facts.capability, key)
        named = grid_arguments(kernel, binary, args) if callable(launch.grid) else None
        made = make_launch(binary, self._target, launch.grid, launch.block, launch.shared_bytes, named)
        blocks = math.prod(made.grid)
        arrays = HostArrays(self._memory, private=False, kernel=binary.name, blocks=blocks)
        parameters = front_end.pack(kernel, binary, args, arrays)
        self._arrays.append(arrays)
        made = replace(made, parameters=parameters)
        function = self._load(binary, made.dynamic_shared_bytes)
        return BoundLaunch(self._driver.bind(function, made), index, made)

    def _load(self, binary: KernelBinary, shared_bytes: int) -> int:
        # A module's global variables live as long as it does: one module a kernel, as in Numba.
        image = binary.image
        key = image.sha256, binary.entry_name
        if key not in self._functions:
            most = max(launch.shared_bytes for launch in self.case.launches)
            room = max(0, self._target.shared_bytes - image.shared_bytes)
            self._functions[key] = self._driver.load(
                binary.cubin, binary.entry_name, max(shared_bytes, min(most, room))
            )
        return self._functions[key]

    def verify(self) -> None:
        """Run the case once and compare with NumPy; afterwards :meth:`restore` knows what launches change.

        Raises CheckFailed where the results differ, SiliconError for a launch that fails.
        """
        self.run(lambda launch: self._driver.launch(launch.bound))
        changed = []
        for allocation in self._memory.taken:
            host = _host_bytes(allocation)
            found = self._driver.download(allocation.base, allocation.size)
            if not np.array_equal(found, host):
                changed.append((allocation, host.copy()))
                if allocation.owner.flags.writeable:
                    host[:] = found
                else:
                    raise CheckFailed(f"{allocation.label} is read-only and was written")
        for arrays in self._arrays:
            arrays.succeed()
        try:
            if self.case.check is not None:
                self.case.check()
        except AssertionError as error:
            raise CheckFailed(" ".join(str(error).split())[:300]) from None
        for allocation, before in changed:
            copy = self._driver.allocate(allocation.size)
            self._pristine.append((allocation, copy))
            self._driver.upload(copy, before)

    def restore(self) -> None:
        """Enqueue putting every array that the launches change back to what it was."""
        for allocation, copy in self._pristine:
            self._driver.copy(allocation.base, copy, allocation.size)

    def run(self, enqueue: Callable[[BoundLaunch], None]) -> None:
        """Hand every launch of the case to ``enqueue``, in order."""
        for launch in self.launches:
            enqueue(launch)

    @property
    def timed(self) -> list[BoundLaunch]:
        """The launches that are measured."""
        return [launch for launch in self.launches if launch.index is not None]

    def free(self) -> None:
        """Give the device memory back."""
        for allocation in self._memory.taken:
            self._driver.free(allocation.base)
        for _, copy in self._pristine:
            self._driver.free(copy)
        self._memory.taken.clear()
        self._pristine.clear()


def _host_bytes(allocation: Allocation) -> np.ndarray:
    """The host memory behind an allocation, as uint8 that shares it."""
    if not allocation.size:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * allocation.size).from_address(allocation.host))


def make_workload(
    driver: Driver,
    facts: DeviceFacts,
    name: str,
    shape_: dict[str, Any],
    spec: GpuSpec | None,
    small: bool,
    builder: Builder,
) -> DeviceWorkload:
    """A workload that has been run once and found right; raises CheckFailed, with nothing left behind."""
    workload = DeviceWorkload(driver, facts, name, shape_, spec, small, builder)
    try:
        workload.verify()
    except (CheckFailed, SiliconError):
        workload.free()
        raise
    return workload
