"""Loaded machine code as the driver API has it: modules, the kernels in them, and their variables.

Mental model: a program hands over a cubin (or PTX, which is assembled first); a kernel in it is known by its
name. What a launch needs is made at the first launch and kept with the kernel; the module's global
variables live in device memory for as long as the module is loaded. A module (cuModule*) is of the device of the
context that it was loaded in; a library (cuLibrary*) is of all of them, with variables of its own on each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from ctypes import c_char_p, c_uint
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.driver.abi import (
    FILE_NOT_FOUND,
    HOST,
    INVALID_IMAGE,
    INVALID_VALUE,
    NO_BINARY_FOR_GPU,
    NOT_FOUND,
    TEXT_OUT,
    UINT_OUT,
    WORD,
    WORD_OUT,
    DriverError,
    Handles,
    entry,
    put,
)
from gpusim.driver.contexts import Contexts
from gpusim.driver.device import Device
from gpusim.driver.images import cubin_of, image_bytes
from gpusim.driver.jit import JitOptions, options_at
from gpusim.driver.kernel_source import KernelSource
from gpusim.driver.memory import Block, Memory
from gpusim.driver.symbols import readable_name
from gpusim.emulator.prepare import prepare
from gpusim.errors import CompileError
from gpusim.frontend.toolchain_versions import toolchain
from gpusim.isa.binary.cubin import KernelImage, kernels_of, load_kernel
from gpusim.isa.binary.elf import parse_elf
from gpusim.isa.binary.made_for import made_for
from gpusim.launch.binary import KernelBinary
from gpusim.trace.record import Program

_UNIFIED_FUNCTION = (
    "functions that host and device share (CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE) are not emulated"
)


@dataclass(eq=False)
class Variables:
    """A module's on one device, once something asks for them: ``globals_`` uint8 array at device address
    ``globals_address``, ``constants`` likewise of those in constant memory."""

    globals_: np.ndarray | None = None
    globals_address: int = 0
    constants: np.ndarray | None = None
    constants_address: int = 0


@dataclass(eq=False)
class Module:
    """A loaded cubin: ``names`` of its kernels, ``functions`` of all its code. ``device``: whose it is, None for a
    library. ``managed``: names of the variables that the host and all devices read and write."""

    cubin: bytes
    names: tuple[str, ...]
    functions: frozenset[str]
    device: int | None
    handle: int = 0
    kernels: dict[str, Kernel] = field(default_factory=dict)
    managed: frozenset[str] = frozenset()
    variables: dict[int, Variables] = field(default_factory=dict)  # by device
    shared: Block | None = None  # of several devices: where the managed ones lie, each at its place

    def on(self, device: int) -> Variables:
        """Its variables on a device."""
        return self.variables.setdefault(device, Variables())

    @cached_property
    def made_for(self) -> tuple[int, int]:
        """Architectures of the PTX and of the machine code, such as 80 and 90."""
        return made_for(parse_elf(self.cubin))


@dataclass(eq=False)
class Kernel:
    """A kernel of a loaded module; ``binaries`` by whether the launch is cooperative."""

    module: Module
    symbol: str
    name: str
    image: KernelImage
    handle: int = 0
    settings: dict[int, int] = field(default_factory=dict)
    binaries: dict[bool, KernelBinary] = field(default_factory=dict)
    text: ctypes.Array | None = None
    line_cubin: bytes | None = None


class Modules:
    """Entry points cuModule* and cuLibrary*, and those that name kernels."""

    def __init__(self, device: Device, contexts: Contexts, memory: Memory, lines: KernelSource):
        self._device, self._contexts, self._memory, self._lines = device, contexts, memory, lines
        self._handles = Handles(0xE0_0000)

    def reset(self, device: int) -> None:
        """Unload what is a device's, and forget the variables of libraries there; their memory goes with the
        device's."""
        if self._contexts.count == 1:
            self._handles.clear()
            return
        self._handles.remove_if(lambda thing: (thing.module if isinstance(thing, Kernel) else thing).device == device)
        for thing in self._handles:
            if isinstance(thing, Module):
                thing.variables.pop(device, None)
                if thing.shared is not None and thing.shared.device == device:
                    thing.shared = None

    def kernel(self, handle: int) -> Kernel:
        """The kernel of a CUkernel or CUfunction; raises DriverError."""
        kernel = self._handles.get(handle)
        if not isinstance(kernel, Kernel):
            raise DriverError(INVALID_VALUE, f"0x{handle:x} is no kernel")
        return kernel

    def is_kernel(self, handle: int) -> bool:
        """Whether ``handle`` is a kernel's."""
        return isinstance(self._handles.find(handle), Kernel)

    def share_variables(self, handle: int, names: Iterable[str]) -> None:
        """Let the module's variables of these names be managed memory."""
        self._handles.get(handle).managed = frozenset(names)

    def has_managed(self, handle: int, device: int) -> bool:
        """Whether a module's managed variables are accounted to a device; False for a handle of no module."""
        module = self._handles.find(handle)
        return isinstance(module, Module) and module.shared is not None and module.shared.device == device

    # ---- loading -----------------------------------------------------------------------------

    def _load(self, out, data: bytes, options: JitOptions | None = None, device: int | None = None) -> None:
        cubin = cubin_of(data, tuple(self._device.spec.capability), options or JitOptions())
        try:
            elf = parse_elf(cubin)
        except CompileError as error:
            raise DriverError(INVALID_IMAGE, str(error)) from None
        major, minor = divmod(elf.architecture, 10)
        have = self._device.spec.capability
        if major != have[0] or minor > have[1]:
            raise DriverError(
                NO_BINARY_FOR_GPU,
                f"machine code for sm_{elf.architecture} does not run on {self._device.spec.name} (sm_{have[0]}{have[1]})",
            )
        # A kernel without parameters is listed nowhere: by name it is found like any function.
        functions = frozenset(section.name.removeprefix(".text.") for section in elf.starting(".text."))
        module = Module(cubin, tuple(kernels_of(elf)), functions, device)
        module.handle = self._handles.new(module)
        put(out, module.handle)

    @entry("cuModuleLoadData", "cuModuleLoadFatBinary", arguments=(WORD_OUT, HOST))
    def load_module(self, out, image: int) -> None:
        self._load(out, image_bytes(image), device=self._contexts.here())

    @entry("cuModuleLoadDataEx", arguments=(WORD_OUT, HOST, c_uint, HOST, HOST))
    def load_module_with_options(self, out, image: int, count: int, options: int, values: int) -> None:
        self._load(out, image_bytes(image), options_at(count, options, values), self._contexts.here())

    @entry("cuLibraryLoadData", arguments=(WORD_OUT, HOST, HOST, HOST, c_uint, HOST, HOST, c_uint))
    def load_library(self, out, image: int, options: int, values: int, count: int, *_library_options: int) -> None:
        self._load(out, image_bytes(image), options_at(count, options, values))

    @entry("cuModuleLoad", arguments=(WORD_OUT, c_char_p))
    def load_file(self, out, path: bytes) -> None:
        self._load(out, _read(path), device=self._contexts.here())

    @entry("cuLibraryLoadFromFile", arguments=(WORD_OUT, c_char_p, HOST, HOST, c_uint, HOST, HOST, c_uint))
    def load_library_file(
        self, out, path: bytes, options: int, values: int, count: int, *_library_options: int
    ) -> None:
        self._load(out, _read(path), options_at(count, options, values))

    @entry("cuModuleUnload", "cuLibraryUnload", arguments=(WORD,))
    def unload(self, handle: int) -> None:
        module = self._handles.remove(handle)
        for kernel in module.kernels.values():
            self._handles.remove(kernel.handle)
        for held in module.variables.values():
            for address in filter(None, (held.globals_address, held.constants_address)):
                self._memory.free(address)
        if module.shared is not None:
            self._memory.free(module.shared.allocation.base)

    @entry("cuLibraryGetModule", arguments=(WORD_OUT, WORD))
    def library_module(self, out, handle: int) -> None:
        self._handles.get(handle)
        put(out, handle)

    # ---- names -------------------------------------------------------------------------------

    @entry("cuModuleGetFunction", "cuLibraryGetKernel", arguments=(WORD_OUT, WORD, c_char_p))
    def find_kernel(self, out, handle: int, name: bytes) -> None:
        module, symbol = self._handles.get(handle), name.decode()
        if symbol not in module.functions:
            raise DriverError(
                NOT_FOUND, f"the module has no kernel {symbol}; it has {', '.join(module.names) or 'none'}"
            )
        put(out, self.kernel_of(module, symbol).handle)

    def kernel_of(self, module: Module, symbol: str) -> Kernel:
        """The kernel ``symbol`` of a module; raises DriverError."""
        kernel = module.kernels.get(symbol)
        if kernel is None:
            try:
                image = load_kernel(module.cubin, symbol)
            except CompileError as error:
                raise DriverError(INVALID_IMAGE, str(error)) from None
            name = self._lines.name_of(symbol) or readable_name(symbol)
            kernel = module.kernels[symbol] = Kernel(module, symbol, name, image)
            kernel.handle = self._handles.new(kernel)
        return kernel

    @entry("cuModuleGetFunctionCount", "cuLibraryGetKernelCount", arguments=(UINT_OUT, WORD))
    def kernel_count(self, out, handle: int) -> None:
        put(out, len(self._handles.get(handle).names))

    @entry("cuModuleEnumerateFunctions", "cuLibraryEnumerateKernels", arguments=(WORD_OUT, c_uint, WORD))
    def kernel_list(self, out, count: int, handle: int) -> None:
        module = self._handles.get(handle)
        for i, symbol in enumerate(module.names[:count]):
            out[i] = self.kernel_of(module, symbol).handle

    @entry("cuKernelGetFunction", arguments=(WORD_OUT, WORD))
    def function_of(self, out, handle: int) -> None:
        put(out, self.kernel(handle).handle)

    @entry("cuKernelGetLibrary", "cuFuncGetModule", arguments=(WORD_OUT, WORD))
    def module_of(self, out, handle: int) -> None:
        put(out, self.kernel(handle).module.handle)

    @entry("cuKernelGetName", "cuFuncGetName", arguments=(TEXT_OUT, WORD))
    def name_of(self, out, handle: int) -> None:
        kernel = self.kernel(handle)
        kernel.text = ctypes.create_string_buffer(kernel.symbol.encode())  # C code keeps the pointer
        out[0] = ctypes.cast(kernel.text, c_char_p)

    @entry(
        "cuModuleGetGlobal", "cuLibraryGetGlobal", "cuLibraryGetManaged", arguments=(WORD_OUT, WORD_OUT, WORD, c_char_p)
    )
    def find_variable(self, out, size_out, handle: int, name: bytes) -> None:
        module = self._handles.get(handle)
        # Any function's image has the module's variables; a module may hold but a kernel without parameters.
        images = [self.kernel_of(module, symbol).image for symbol in (*module.names, *sorted(module.functions))[:1]]
        image, wanted = (images[0] if images else None), name.decode()
        device = self.device_of(module)
        for known, offset, size in image.variables if image is not None else ():
            if known == wanted:
                held = self.globals_of(module, image, device)
                apart = module.shared is not None and known in module.managed
                base = module.shared.allocation.base if apart else held.globals_address
                _put_range(out, size_out, base + offset, size)
                return
        for known, offset, size in image.constant_variables if image is not None else ():
            if known == wanted:
                _put_range(out, size_out, self._hold_constants(module, image, device) + offset, size)
                return
        raise DriverError(NOT_FOUND, f"the module has no global variable {name.decode()}")

    def device_of(self, module: Module) -> int:
        """The device whose variables a call means: the module's, of a library the current context's."""
        return self._contexts.here() if module.device is None else module.device

    def globals_of(self, module: Module, image: KernelImage, device: int) -> Variables:
        """The module's variables on a device, in its memory from now on, if it has any."""
        held = module.on(device)
        if image.global_bytes and held.globals_ is None:
            alone = module.managed and self._contexts.count == 1  # they may lie in one block
            held_block = self._variables(
                image, self._memory.allocate_managed if alone else self._memory.allocate, device
            )
            held.globals_, held.globals_address = held_block.pages, held_block.allocation.base
        if module.managed and self._contexts.count > 1 and module.shared is None:
            module.shared = self._variables(image, self._memory.allocate_managed, device)
        return held

    @staticmethod
    def _variables(image: KernelImage, allocate: Callable[[int, str, int], Block], device: int) -> Block:
        """Memory with the initial content of all variables."""
        block = allocate(image.global_bytes, "the module's global variables", device)
        assert block.pages is not None
        block.pages[:] = np.frombuffer(image.global_data, np.uint8)
        return block

    def shared_globals(self, module: Module, image: KernelImage) -> list[tuple[int, np.ndarray]]:
        """(offset, content) of the variables that all devices share and that do not lie among the others."""
        if module.shared is None or module.shared.pages is None:
            return []
        pages = module.shared.pages
        return [(at, pages[at : at + size]) for name, at, size in image.variables if name in module.managed]

    @entry("cuLibraryGetUnifiedFunction", arguments=(WORD_OUT, WORD, c_char_p))
    def unified_function(self, out, handle: int, name: bytes) -> None:
        self._handles.get(handle)
        raise DriverError(NOT_FOUND, _UNIFIED_FUNCTION)

    @entry("cuFuncLoad", arguments=(WORD,))
    def load_function(self, handle: int) -> None:
        self.kernel(handle)

    @entry("cuModuleGetTexRef", "cuModuleGetSurfRef", arguments=(WORD_OUT, WORD, c_char_p))
    def reference(self, out, handle: int, name: bytes) -> None:
        self._handles.get(handle)
        raise DriverError(NOT_FOUND, "texture and surface references left CUDA with version 12: use objects")

    def _hold_constants(self, module: Module, image: KernelImage, device: int) -> int:
        """Keep the module's constant variables in a device's memory from now on, from where launches take them; their
        address."""
        held = module.on(device)
        if held.constants is None:
            content = np.frombuffer(image.constants[3], np.uint8)
            block = self._memory.allocate(content.nbytes, "the module's constant variables", device)
            block.pages[:] = content
            held.constants, held.constants_address = block.pages, block.allocation.base
        return held.constants_address

    # ---- what a launch needs -----------------------------------------------------------------

    def binary(self, kernel: Kernel, cooperative: bool) -> KernelBinary:
        """The kernel's machine code as a launch takes it."""
        known = kernel.binaries.get(cooperative)
        if known is None:
            known = kernel.binaries[cooperative] = KernelBinary(
                cubin=kernel.module.cubin,
                entry_name=kernel.symbol,
                name=kernel.name,
                capability=tuple(self._device.spec.capability),
                line_cubin=kernel.line_cubin or b"",
                cooperative=cooperative,
                toolchain=toolchain(),
            )
        return known

    def add_lines(self, kernel: Kernel) -> None:
        """Have the kernel's next binary include source lines."""
        if kernel.line_cubin is None and not kernel.image.lines:
            kernel.line_cubin = self._lines.build(kernel.symbol)

    def program_with_lines(self, kernel: Kernel, cooperative: bool) -> Program:
        """The kernel's program with source lines where they can be had."""
        if kernel.line_cubin is None and not kernel.image.lines:
            self.add_lines(kernel)
            if kernel.line_cubin:
                kernel.binaries.pop(cooperative, None)
        return prepare(self.binary(kernel, cooperative)).program


def _put_range(out: Any, size_out: Any, address: int, size: int) -> None:
    if out:
        out[0] = address
    if size_out:
        size_out[0] = size


def _read(path: bytes | None) -> bytes:
    if not path:
        raise DriverError(INVALID_VALUE, "the path is null")
    try:
        return Path(path.decode()).read_bytes()
    except OSError as error:
        raise DriverError(FILE_NOT_FOUND, f"{path.decode()}: {error.strerror}") from None
