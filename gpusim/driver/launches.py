"""Kernel launches as the driver API has them: checked, emulated to their end, and handed to the ledger.

Mental model: a launch call is a kernel's handle, a shape and pointers to its parameters. The parameters are
copied into the kernel's parameter bank as the driver would copy them, all blocks run, and the call returns
when memory holds the result. A launch that fails breaks the contexts of its device, as on a GPU: every later launch and
synchronisation there returns the same error until the device is reset.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import c_uint
from dataclasses import dataclass, replace
from typing import ClassVar, NoReturn

from gpusim.driver.abi import (
    ASSERT,
    COOPERATIVE_LAUNCH_TOO_LARGE,
    HOST,
    ILLEGAL_ADDRESS,
    INVALID_CLUSTER_SIZE,
    INVALID_HANDLE,
    INVALID_VALUE,
    LAUNCH_FAILED,
    LAUNCH_OUT_OF_RESOURCES,
    LAUNCH_TIMEOUT,
    MISALIGNED_ADDRESS,
    NOT_SUPPORTED,
    WORD,
    DriverError,
    entry,
    words_at,
)
from gpusim.driver.contexts import Context, Contexts
from gpusim.driver.executor import Executor
from gpusim.driver.graphs import ATTRIBUTES_CHANGED
from gpusim.driver.launch_options import COOPERATIVE, SERIALIZATION, LaunchOptions, options_at, options_of
from gpusim.driver.ledger import Ledger
from gpusim.driver.memory import Memory
from gpusim.driver.modules import Kernel, Modules
from gpusim.driver.occupancy import MAX_DYNAMIC_SHARED, MAX_THREADS, KernelFacts
from gpusim.driver.reach import Reach
from gpusim.driver.repeats import Repeats
from gpusim.driver.streams import Streams
from gpusim.driver.structures import KernelNode, LaunchConfig
from gpusim.driver.work import KERNEL, PLAIN_EDGE, PROGRAMMATIC_EDGE, Work
from gpusim.emulator.device_launches import DeviceLaunch
from gpusim.emulator.emulation import Emulation
from gpusim.emulator.host_calls import Heap
from gpusim.emulator.prepare import prepare
from gpusim.errors import (
    AddressError,
    DeadlockError,
    ExecutionError,
    GpusimError,
    InstructionLimitError,
    LaunchError,
)
from gpusim.isa.target import CLUSTER_CAPABILITY, Target
from gpusim.launch.binary import KernelBinary
from gpusim.launch.kernel_launch import KernelLaunch
from gpusim.launch.memory import DeviceMemory
from gpusim.sanitizer.dependents import Primary
from gpusim.trace.record import Program

_BUFFER_POINTER, _BUFFER_SIZE = 1, 2  # CU_LAUNCH_PARAM_*


PLAIN, NO_CONTEXT = LaunchOptions(), Context(0)


@dataclass(frozen=True)
class Failure:
    """Why a launch failed: the CUresult it returned and the error that says where and why."""

    code: int
    error: GpusimError


class Launches:
    """Entry points cuLaunch*; ``failures``: of the devices whose contexts are broken; ``refusal`` is the last launch
    that was turned down before it ran."""

    def __init__(
        self,
        target: Target,
        contexts: Contexts,
        memory: Memory,
        modules: Modules,
        facts: KernelFacts,
        ledger: Ledger,
        executor: Executor,
    ):
        self._target, self._contexts, self._memory = target, contexts, memory
        self._modules, self._facts, self._ledger, self._executor = modules, facts, ledger, executor
        self._repeats: dict[int, Repeats] = {}
        self._heaps: dict[int, Heap] = {}
        self.streams: Streams | None = None
        self.set_condition: Callable[[int, int], bool] = lambda handle, value: False
        self.record_event: Callable[[int, int], None] = lambda event, stream: None
        self.failures: dict[int, Failure] = {}
        #: a launch that fails on the device succeeds as a call, as it does on a GPU that has yet to run it; the next
        #: call tells
        self.deferred = False
        self.refusal: Failure | None = None

    def settle(self) -> None:
        """No launch depends programmatically on the last one any more."""
        self._ledger.settle()

    def synchronized(self, device: int) -> None:
        """The program has waited for a device: what it does next begins no earlier, on any device."""
        self._ledger.synchronized(device)

    def waits(self, device: int, time_ns: float) -> None:
        """What a device does next begins no earlier than ``time_ns``: it waits for an event of another one."""
        self._ledger.waits(device, time_ns)

    @property
    def failure(self) -> Failure | None:
        """Why the current context is broken, None if it is not."""
        return self.failures.get(self._contexts.here())

    @property
    def last_failure(self) -> Failure | None:
        """Of the launch that failed last, on any device that has not been reset since."""
        return next(reversed(self.failures.values()), None)

    def check_alive(self, device: int) -> None:
        """Raise DriverError if an earlier launch broke a device's contexts."""
        failure = self.failures.get(device)
        if failure is not None:
            raise DriverError(failure.code, str(failure.error))

    @entry("cuLaunchKernel", arguments=(WORD, *(c_uint,) * 7, WORD, HOST, HOST))
    def launch(self, handle: int, *rest: int) -> None:
        self._submit(rest[7], self.work(handle, rest[0:3], rest[3:6], rest[6], rest[8], rest[9]))

    @entry("cuLaunchCooperativeKernel", arguments=(WORD, *(c_uint,) * 7, WORD, HOST))
    def launch_cooperative(self, handle: int, *rest: int) -> None:
        options = options_of({COOPERATIVE: b"\1\0\0\0"})
        self._submit(rest[7], self.work(handle, rest[0:3], rest[3:6], rest[6], rest[8], 0, options))

    @entry("cuLaunchKernelEx", arguments=(ctypes.POINTER(LaunchConfig), WORD, HOST, HOST))
    def launch_with_attributes(self, config_pointer, handle: int, parameters: int, extra: int) -> None:
        if not config_pointer:
            raise DriverError(INVALID_VALUE, "the launch's configuration is null")
        config = config_pointer[0]
        options = options_at(config)
        shape = tuple(config.grid), tuple(config.block), config.dynamic_shared_bytes
        self._submit(config.stream, self.work(handle, *shape, parameters, extra, options))
        for event in options.events:
            self.record_event(event, config.stream)

    def _submit(self, stream: int, work: KernelLaunchWork) -> None:
        assert self.streams is not None
        of_stream = self.streams.check(stream).device
        if of_stream != work.device:
            raise DriverError(
                INVALID_HANDLE,
                f"{work.kernel.name}: the stream is of device {of_stream}, the current context of device {work.device}",
            )
        self.streams.submit(stream, work)

    def work(
        self,
        handle: int,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        shared: int,
        parameters: int,
        extra: int,
        options: LaunchOptions = PLAIN,
    ) -> KernelLaunchWork:
        """The launch of a kernel with the parameters at a host address; raises DriverError for one that cannot be."""
        context = self._contexts.find(0)
        self.check_alive(context.device)
        kernel = self._modules.kernel(handle)
        if kernel.module.device not in (None, context.device):
            raise DriverError(
                INVALID_HANDLE,
                f"{kernel.name} was loaded on device {kernel.module.device}, the current context is of device {context.device}",
            )
        work = KernelLaunchWork(self, kernel, grid, block, shared, _pack(kernel, parameters, extra), options)
        work.context = context
        work.print_bytes, work.heap_bytes = self._contexts.print_bytes(), self._contexts.heap_bytes()
        work.stack_bytes = self._contexts.stack_bytes()
        self.check(work)
        return work

    def check(self, work: KernelLaunchWork) -> None:
        """Raise DriverError for a launch that a GPU would turn down."""
        try:
            self._check_shape(work)
            self._check_cluster(work)
        except GpusimError as error:
            self._refuse(error)

    def validate(self, work: KernelLaunchWork) -> None:
        """Raise DriverError for what else a launch would be turned down for when it begins: its grid, block and
        memory."""
        try:
            binary = self._modules.binary(work.kernel, work.options.cooperative)
            self._launch_of(work, binary)
        except GpusimError as error:
            self._refuse(error)

    def _launch_of(self, work: KernelLaunchWork, binary: KernelBinary) -> KernelLaunch:
        cluster = self._facts.cluster_of(work.kernel, work.options)
        (grid_x, grid_y, grid_z), (x, y, z) = work.grid, work.block
        return KernelLaunch(
            binary, self._target, (grid_x, grid_y, grid_z), (x, y, z), work.shared, work.bank, work.stack_bytes, cluster,
            large_clusters=True,
        )  # fmt: skip

    def start(self, work: KernelLaunchWork) -> None:
        """Run a launch to its end."""
        self.check_alive(work.device)
        if self._ledger.wants_lines:
            self._modules.add_lines(work.kernel)
        self._executor.run(functools.partial(self._run, work))

    def _run(self, work: KernelLaunchWork) -> None:
        """The launch itself, in the executor's thread."""
        with self._memory.with_host():
            self._run_on(work)

    def _run_on(self, work: KernelLaunchWork) -> None:
        kernel, cooperative = work.kernel, work.options.cooperative
        space = self._space_of(work.context)
        try:
            binary = self._modules.binary(kernel, cooperative)
            launch = self._launch_of(work, binary)
            emulation = Emulation(
                launch,
                space,
                self._ledger.wanted.instruction_limit,
                module_globals=self._modules.globals_of(kernel.module, kernel.image, work.device).globals_,
                program_with_lines=lambda: self._program_with_lines(kernel, cooperative),
                print_bytes=work.print_bytes,
                module_constants=kernel.module.on(work.device).constants,
                heap=self._heap_of(work),
                set_condition=self.set_condition,
                shared_globals=self._modules.shared_globals(kernel.module, kernel.image),
            )
        except GpusimError as error:
            self._refuse(error)
        try:
            self._ledger.reaches(space)
            work.number = self._ledger.launches + 1
            repeats = self._repeats.setdefault(work.device, Repeats())
            work.primary = self._ledger.run(emulation, repeats, work.before, work.depends_on, work.device)
            work.before = work.depends_on = None
        except GpusimError as error:
            failure = self.failures[work.device] = Failure(_code_of(error), error)
            self._ledger.say(str(error))  # a CUresult is all that the program itself can see
            if self.deferred:
                return
            raise DriverError(failure.code, str(error)) from None
        for made in emulation.launches():
            self._run_on(self._work_of(made, work))

    def _work_of(self, made: DeviceLaunch, parent: KernelLaunchWork) -> KernelLaunchWork:
        """A launch that ``parent`` has made; raises DriverError for one that the GPU would turn down."""
        kernel = self._modules.kernel_of(parent.kernel.module, made.symbol)
        bank = made.parameters[: kernel.image.parameter_bytes]
        work = KernelLaunchWork(self, kernel, made.grid, made.block, made.shared_bytes, bank, PLAIN)
        work.print_bytes, work.heap_bytes, work.stack_bytes = parent.print_bytes, parent.heap_bytes, parent.stack_bytes
        work.context = parent.context
        self.check(work)
        return work

    def _heap_of(self, work: KernelLaunchWork) -> Heap | None:
        """The device's heap, made when a kernel that allocates is first launched."""
        if work.device not in self._heaps and "malloc" in work.kernel.image.externals.values():
            self._heaps[work.device] = Heap(work.heap_bytes)
        return self._heaps.get(work.device)

    def _space_of(self, context: Context) -> DeviceMemory:
        """What kernels that are launched in a context see of memory."""
        if self._contexts.count == 1:
            return self._memory.space
        return Reach(self._memory, context.device, {peer.device for peer in context.peers})

    def reset(self, device: int) -> None:
        """Forget what a device's launches have left: it has been reset."""
        for left in (self.failures, self._heaps, self._repeats):
            left.pop(device, None)

    def _refuse(self, error: GpusimError) -> NoReturn:
        code = INVALID_VALUE if isinstance(error, LaunchError) else NOT_SUPPORTED
        if isinstance(error, LaunchError) and "registers" in str(error):
            code = LAUNCH_OUT_OF_RESOURCES
        self.refusal = Failure(code, error)
        self._ledger.refused += 1
        self._ledger.say(str(error))
        raise DriverError(code, str(error)) from None

    def _program_with_lines(self, kernel: Kernel, cooperative: bool) -> Program:
        """The program to explain an error with. Numba compiles it once more, in the thread that has launched: a context
        is current there."""
        job = self._executor.current
        found = job and job.ask(lambda: self._modules.program_with_lines(kernel, cooperative))
        return found or prepare(self._modules.binary(kernel, cooperative)).program

    def _check_cluster(self, work: KernelLaunchWork) -> None:
        """Raise DriverError for clusters that the GPU does not have, or that the grid does not divide into."""
        cluster = self._facts.cluster_of(work.kernel, work.options)
        blocks = cluster[0] * cluster[1] * cluster[2]
        if blocks == 1:
            return
        if self._target.capability < CLUSTER_CAPABILITY:
            raise DriverError(INVALID_VALUE, f"a cluster of {cluster} blocks: clusters need compute capability 9.0")
        most = self._facts.most_cluster(work.kernel)
        if blocks > most:
            raise DriverError(INVALID_CLUSTER_SIZE, f"a cluster of {cluster} blocks, the most are {most}")
        if any(size % part for size, part in zip(work.grid, cluster, strict=True)):
            raise DriverError(INVALID_VALUE, f"a grid of {work.grid} blocks does not divide into clusters of {cluster}")

    def _check_shape(self, work: KernelLaunchWork) -> None:
        kernel, grid, block, shared, cooperative = (
            work.kernel,
            work.grid,
            work.block,
            work.shared,
            work.options.cooperative,
        )
        if min(grid) < 1 or min(block) < 1:
            raise LaunchError(f"{kernel.name}: grid {grid} and block {block} must be positive")
        threads, most = block[0] * block[1] * block[2], self._facts.attribute(kernel, MAX_THREADS)
        if 0 < kernel.image.max_threads < threads:
            raise LaunchError(f"{kernel.name}: a block of {threads} threads, its launch bounds allow {most}")
        limit = self._facts.attribute(kernel, MAX_DYNAMIC_SHARED)
        if shared > limit:
            raise LaunchError(
                f"{kernel.name}: {shared} bytes of dynamic shared memory are more than the {limit} that a kernel gets"
                f" without asking (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)"
            )
        if cooperative:
            blocks = grid[0] * grid[1] * grid[2]
            room = self._facts.blocks_per_sm(kernel, threads, shared) * self._target.sm_count
            if blocks > room:
                detail = f"{kernel.name}: a cooperative launch of {blocks} blocks, the GPU holds {room} at once"
                self.refusal = Failure(COOPERATIVE_LAUNCH_TOO_LARGE, LaunchError(detail))
                self._ledger.refused += 1
                raise DriverError(COOPERATIVE_LAUNCH_TOO_LARGE, detail)


@dataclass
class KernelLaunchWork(Work):
    """A launch, its parameters packed. ``shown``: what the program was told of it, kept alive. ``before``: what the
    launch on which it depends programmatically has accessed, ``primary``: what it has itself; None where nobody asked
    (:mod:`gpusim.sanitizer.dependents`). ``number`` of the launch when it last ran, ``depends_on`` that of the launch
    on which it depends programmatically. ``context``: in which it was made."""

    launches: Launches
    kernel: Kernel
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    bank: bytes
    options: LaunchOptions
    print_bytes: int = 0
    heap_bytes: int = 0
    stack_bytes: int = 0
    shown: tuple = ()
    before: Primary | None = None
    primary: Primary | None = None
    number: int | None = None
    depends_on: int | None = None
    context: Context = NO_CONTEXT
    kind: ClassVar[int] = KERNEL

    @property
    def device(self) -> int:
        """On which it runs."""
        return self.context.device

    def follow(self, before: Work | None, edge: bytes = PLAIN_EDGE) -> None:
        depends = edge == PROGRAMMATIC_EDGE or self._is_serialized
        primary = before if depends and isinstance(before, KernelLaunchWork) else None
        self.before = primary and primary.primary
        self.depends_on = primary and primary.number

    @property
    def _is_serialized(self) -> bool:
        """Whether it has the attribute of programmatic stream serialization."""
        return any(self.options.values.get(SERIALIZATION, b"")[:4])

    def edge_behind(self, before: Work) -> bytes:
        return PROGRAMMATIC_EDGE if self._is_serialized and before.kind == KERNEL else PLAIN_EDGE

    def run(self) -> None:
        self.launches.start(self)

    def parameters(self) -> KernelNode:
        bank = ctypes.create_string_buffer(self.bank, max(1, len(self.bank)))
        places = [ctypes.addressof(bank) + parameter.offset for parameter in self.kernel.image.parameters]
        pointers = (ctypes.c_uint64 * max(1, len(places)))(*places)
        self.shown = bank, pointers
        shape = (c_uint * 3)(*self.grid), (c_uint * 3)(*self.block)
        handle = self.kernel.handle
        return KernelNode(handle, *shape, self.shared, ctypes.addressof(pointers), 0, handle, 0)

    def with_attribute(self, kind: int, value: bytes) -> KernelLaunchWork:
        """The same launch with one attribute set; raises DriverError."""
        options = options_of({**self.options.values, kind: value})
        work = replace(self, options=options, shown=())
        self.launches.check(work)
        return work

    def why_not(self, old: Work) -> int | None:
        """An instantiated launch may take another function's place unless that one is cooperative."""
        assert isinstance(old, KernelLaunchWork)
        return ATTRIBUTES_CHANGED if old.options.cooperative != self.options.cooperative else None


def _pack(kernel: Kernel, parameters: int, extra: int) -> bytes:
    """The parameter bank of a launch, from an array of pointers or from one packed buffer."""
    image = kernel.image
    bank = bytearray(image.parameter_bytes)
    if extra and not parameters:
        options = words_at(extra, 4)
        given = dict(zip(options[0::2], options[1::2], strict=True))
        size = min(ctypes.c_size_t.from_address(given[_BUFFER_SIZE]).value, len(bank))
        bank[:size] = ctypes.string_at(given[_BUFFER_POINTER], size)
        return bytes(bank)
    if extra and parameters:
        raise DriverError(INVALID_VALUE, f"{kernel.name}: parameters were given both as pointers and packed")
    pointers = words_at(parameters, len(image.parameters))
    if len(pointers) != len(image.parameters):
        raise DriverError(INVALID_VALUE, f"{kernel.name} takes {len(image.parameters)} parameters, none were given")
    for parameter, pointer in zip(image.parameters, pointers, strict=True):
        room = min(parameter.size, len(bank) - parameter.offset)
        bank[parameter.offset : parameter.offset + room] = ctypes.string_at(pointer, room)
    return bytes(bank)


def _code_of(error: GpusimError) -> int:
    """The CUresult of a launch that ended so."""
    if isinstance(error, AddressError):
        return MISALIGNED_ADDRESS if "is not a multiple of" in str(error) else ILLEGAL_ADDRESS
    if isinstance(error, (DeadlockError, InstructionLimitError)):
        return LAUNCH_TIMEOUT
    if isinstance(error, ExecutionError):
        return ASSERT if "assertion `" in str(error) else LAUNCH_FAILED
    return NOT_SUPPORTED
