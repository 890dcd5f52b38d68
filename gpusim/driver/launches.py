"""Kernel launches as the driver API has them: checked, emulated to their end, and handed to the ledger.

Mental model: a launch call is a kernel's handle, a shape and pointers to its parameters. The parameters are
copied into the kernel's parameter bank as the driver would copy them, all blocks run, and the call returns
when memory holds the result. A launch that fails breaks the context, as on a GPU: every later launch and
synchronisation returns the same error until the context is reset.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import c_int, c_uint
from dataclasses import dataclass
from typing import NoReturn

from gpusim.driver.abi import (
    ASSERT,
    COOPERATIVE_LAUNCH_TOO_LARGE,
    HOST,
    ILLEGAL_ADDRESS,
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
from gpusim.driver.contexts import Contexts
from gpusim.driver.executor import Executor
from gpusim.driver.ledger import Ledger
from gpusim.driver.memory import Memory
from gpusim.driver.modules import Kernel, Modules
from gpusim.driver.occupancy import MAX_DYNAMIC_SHARED, MAX_THREADS, KernelFacts
from gpusim.driver.streams import Streams
from gpusim.emulator.emulation import Emulation
from gpusim.emulator.prepare import prepare
from gpusim.errors import (
    AddressError,
    DeadlockError,
    ExecutionError,
    GpusimError,
    InstructionLimitError,
    LaunchError,
)
from gpusim.isa.target import Target
from gpusim.launch.kernel_launch import KernelLaunch
from gpusim.trace.record import Program

_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID
_ATTRIBUTE_BYTES = 72  # sizeof(CUlaunchAttribute): id, padding, a union of 64 bytes
_BUFFER_POINTER, _BUFFER_SIZE = 1, 2  # CU_LAUNCH_PARAM_*


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("dynamic_shared_bytes", c_uint),
        ("stream", WORD),
        ("attributes", HOST),
        ("attribute_count", c_uint),
    ]


@dataclass(frozen=True)
class Failure:
    """Why a launch failed: the CUresult it returned and the error that says where and why."""

    code: int
    error: GpusimError


class Launches:
    """Entry points cuLaunch*; ``failure`` is set while the context is broken, ``refusal`` is the last launch
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
        self.streams: Streams | None = None
        self.failure: Failure | None = None
        self.refusal: Failure | None = None

    def check_alive(self) -> None:
        """Raise DriverError if an earlier launch broke the context."""
        if self.failure is not None:
            raise DriverError(self.failure.code, str(self.failure.error))

    @entry("cuLaunchKernel", arguments=(WORD, *(c_uint,) * 7, WORD, HOST, HOST))
    def launch(self, handle: int, *rest: int) -> None:
        self._launch(handle, rest[0:3], rest[3:6], rest[6], rest[7], rest[8], rest[9], cooperative=False)

    @entry("cuLaunchCooperativeKernel", arguments=(WORD, *(c_uint,) * 7, WORD, HOST))
    def launch_cooperative(self, handle: int, *rest: int) -> None:
        self._launch(handle, rest[0:3], rest[3:6], rest[6], rest[7], rest[8], 0, cooperative=True)

    @entry("cuLaunchKernelEx", arguments=(ctypes.POINTER(LaunchConfig), WORD, HOST, HOST))
    def launch_with_attributes(self, config_pointer, handle: int, parameters: int, extra: int) -> None:
        config = config_pointer[0]
        cooperative = False
        for i in range(config.attribute_count):
            place = config.attributes + i * _ATTRIBUTE_BYTES
            kind, values = c_int.from_address(place).value, (c_uint * 3).from_address(place + 8)
            if kind == _COOPERATIVE:
                cooperative = bool(values[0])
            elif kind == _CLUSTER and tuple(values) != (1, 1, 1):
                raise DriverError(NOT_SUPPORTED, f"a cluster of {tuple(values)} blocks: clusters are not emulated")
        shared = config.dynamic_shared_bytes
        self._launch(
            handle, tuple(config.grid), tuple(config.block), shared, config.stream, parameters, extra, cooperative
        )

    def _launch(
        self,
        handle: int,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        shared: int,
        stream: int,
        parameters: int,
        extra: int,
        cooperative: bool,
    ) -> None:
        self.check_alive()
        self._contexts.need()
        self.streams.check(stream)
        kernel = self._modules.kernel(handle)
        bank = _pack(kernel, parameters, extra)
        try:
            self._check_shape(kernel, grid, block, shared, cooperative)
        except GpusimError as error:
            self._refuse(error)
        if self._ledger.wants_lines:
            self._modules.add_lines(kernel)
        self._executor.run(functools.partial(self._run, kernel, grid, block, shared, bank, cooperative))

    def _run(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        bank: bytes,
        cooperative: bool,
    ) -> None:
        """The launch itself, in the executor's thread."""
        with self._memory.with_host():
            self._run_on(kernel, grid, block, shared, bank, cooperative)

    def _run_on(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        bank: bytes,
        cooperative: bool,
    ) -> None:
        try:
            launch = KernelLaunch(self._modules.binary(kernel, cooperative), self._target, grid, block, shared, bank)
            emulation = Emulation(
                launch,
                self._memory.space,
                self._ledger.wanted.instruction_limit,
                module_globals=self._modules.globals_of(kernel.module, kernel.image),
                program_with_lines=lambda: self._program_with_lines(kernel, cooperative),
                print_bytes=self._contexts.print_bytes(),
                module_constants=kernel.module.constants,
            )
        except GpusimError as error:
            self._refuse(error)
        try:
            self._ledger.run(emulation)
        except GpusimError as error:
            self.failure = Failure(_code_of(error), error)
            self._ledger.say(str(error))  # a CUresult is all that the program itself can see
            raise DriverError(self.failure.code, str(error)) from None

    def _refuse(self, error: GpusimError) -> NoReturn:
        code = INVALID_VALUE if isinstance(error, LaunchError) else NOT_SUPPORTED
        if isinstance(error, LaunchError) and "registers" in str(error):
            code = LAUNCH_OUT_OF_RESOURCES
        self.refusal = Failure(code, error)
        self._ledger.refused += 1
        self._ledger.say(str(error))
        raise DriverError(code, str(error)) from None

    def _program_with_lines(self, kernel: Kernel, cooperative: bool) -> Program:
        """The program to explain an error with. Numba compiles it once more, in the thread that has launched: a context is
        current there."""
        job = self._executor.current
        found = job and job.ask(lambda: self._modules.program_with_lines(kernel, cooperative))
        return found or prepare(self._modules.binary(kernel, cooperative)).program

    def _check_shape(
        self, kernel: Kernel, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, cooperative: bool
    ) -> None:
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
