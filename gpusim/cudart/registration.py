"""Device code that a program brings in itself: what nvcc's host code registers before ``main``, and finds again by host
address.

Mental model: each translation unit hands over a fat binary, and for each kernel and variable in it the address of what
stands for it on the host. A fat binary is loaded when something in it is first used. A kernel is then asked for by the
address of its host function, a variable by the address of its host copy.
"""

from __future__ import annotations

import ctypes
import struct
from ctypes import c_char, c_char_p, c_int, c_size_t
from dataclasses import dataclass, field

from gpusim.cudart.errors import INVALID_DEVICE_FUNCTION, INVALID_SYMBOL, INVALID_VALUE
from gpusim.cudart.state import State, write_word
from gpusim.driver.abi import HOST, INVALID_IMAGE, NO_BINARY_FOR_GPU, WORD, DriverError, entry
from gpusim.errors import CompileError
from gpusim.frontend.native.images import best_image
from gpusim.isa.binary.fatbin import Module as FatModule
from gpusim.isa.binary.fatbin import containers

#: fatbinary_section.h: magic number, version, address of the container, and for parts of a device link the linked ones.
_WRAPPER = struct.Struct("<IIQQ")
_WRAPPER_MAGIC = 0x466243B1
#: Of a container: magic number, version, bytes of this header, bytes behind it.
_CONTAINER = struct.Struct("<IHHQ")


@dataclass(eq=False)
class FatBinary:
    """``wrapper``: where it lies; ``module``: the driver's, once something of it is used. ``handle`` is what the
    program has."""

    wrapper: int
    handle: ctypes.Array
    module: int = 0
    managed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Symbol:
    """A kernel or variable ``name`` of ``binary``."""

    binary: FatBinary
    name: str


class Registration:
    """Entry points __cudaRegister*, and the look-up of what was registered."""

    def __init__(self, state: State):
        self._state = state
        self._binaries: dict[int, FatBinary] = {}
        self._kernels: dict[int, Symbol] = {}
        self._variables: dict[int, Symbol] = {}
        self._handles: dict[int, int] = {}

    # ---- what nvcc's host code calls ---------------------------------------------------------

    @entry("__cudaRegisterFatBinary", arguments=(HOST,))
    def register(self, wrapper: int) -> int:
        handle = (ctypes.c_uint64 * 1)(wrapper)
        address = ctypes.addressof(handle)
        self._binaries[address] = FatBinary(wrapper, handle)
        return address

    @entry("__cudaRegisterFatBinaryEnd", arguments=(HOST,))
    def register_end(self, handle: int) -> None:
        pass

    @entry("__cudaUnregisterFatBinary", arguments=(HOST,))
    def unregister(self, handle: int) -> None:
        pass  # the process ends, or the library that it was in is closed: nothing of it is asked for any more

    @entry("__cudaRegisterFunction", arguments=(HOST, HOST, HOST, c_char_p, c_int, HOST, HOST, HOST, HOST, HOST))
    def register_function(self, handle: int, host: int, device: int, name: bytes, *_limits: int) -> None:
        self._kernels[host] = Symbol(self._binaries[handle], name.decode())

    @entry("__cudaRegisterVar", arguments=(HOST, HOST, HOST, c_char_p, c_int, c_size_t, c_int, c_int))
    def register_variable(self, handle: int, host: int, device: int, name: bytes, *_facts: int) -> None:
        self._variables[host] = Symbol(self._binaries[handle], name.decode())

    @entry("__cudaRegisterManagedVar", arguments=(HOST, HOST, HOST, c_char_p, c_int, c_size_t, c_int, c_int))
    def register_managed(self, handle: int, host: int, device: int, name: bytes, *_facts: int) -> None:
        binary = self._binaries[handle]
        binary.managed[name.decode()] = host
        self._variables[host] = Symbol(binary, name.decode())

    @entry("__cudaRegisterHostVar", arguments=(HOST, c_char_p, HOST, c_size_t))
    def register_host_variable(self, handle: int, name: bytes, host: int, size: int) -> None:
        pass

    @entry("__cudaInitModule", arguments=(HOST,))
    def initialise(self, handle: int) -> int:
        """Load the module now, since the host is about to use its managed variables."""
        self._state.ready()
        self._module(self._binaries[handle])
        return 1

    # ---- look-up -----------------------------------------------------------------------------

    def kernel(self, host: int) -> int:
        """The driver's handle of the kernel whose host function is at ``host``; a handle is taken as it is. Raises
        DriverError."""
        handle = self._handles.get(host)
        if handle is None:
            symbol = self._kernels.get(host)
            if symbol is None:
                if self._state.driver.modules.is_kernel(host):
                    return host
                raise DriverError(INVALID_DEVICE_FUNCTION, f"0x{host or 0:x} is the host function of no kernel")
            module = self._module(symbol.binary)
            handle = self._handles[host] = self._state.word("cuModuleGetFunction", module, symbol.name.encode())
        return handle

    def host_function(self, handle: int) -> int:
        """The host function of a kernel's handle; the handle itself where it has none."""
        return next((host for host, known in self._handles.items() if known == handle), handle)

    def variable(self, host: int) -> tuple[int, int]:
        """(device address, bytes) of the variable whose host copy is at ``host``. Raises DriverError."""
        symbol = self._variables.get(host)
        if symbol is None:
            raise DriverError(INVALID_SYMBOL, f"0x{host or 0:x} is the host copy of no device variable")
        size = (ctypes.c_uint64 * 1)()
        module = self._module(symbol.binary)
        return self._state.word("cuModuleGetGlobal", size, module, symbol.name.encode()), size[0]

    def inside_variable(self, host: int, offset: int, size: int) -> int:
        """The device address of ``size`` bytes from byte ``offset`` of a variable; raises DriverError where it is too
        small."""
        self._state.ready()
        address, room = self.variable(host)
        if offset + size > room:
            raise DriverError(INVALID_VALUE, f"bytes {offset} to {offset + size} of a variable of {room} bytes")
        return address + offset

    def reset(self, device: int) -> None:
        """Forget what is loaded: the device has been reset. Where there are others, code stays loaded for them, unless
        its managed variables have gone with this one."""
        alone, modules = self._state.driver.contexts.count == 1, self._state.driver.modules
        for binary in self._binaries.values():
            if alone or (binary.managed and modules.has_managed(binary.module, device)):
                binary.module = 0
        self._handles = {host: handle for host, handle in self._handles.items() if self._kernels[host].binary.module}

    def _module(self, binary: FatBinary) -> int:
        if not binary.module:
            self._state.ready()
            code = self._code(binary)
            out = (ctypes.c_uint64 * 1)()
            text = ctypes.create_string_buffer(code)
            # As a library: its code is for every device, and its variables are on each.
            self._state.check(self._state.driver.calls["cuLibraryLoadData"](out, ctypes.addressof(text), *(0,) * 6))
            binary.module = out[0]
            if binary.managed:
                self._state.driver.modules.share_variables(binary.module, binary.managed)
            for name, place in binary.managed.items():
                size = (ctypes.c_uint64 * 1)()
                write_word(place, self._state.word("cuModuleGetGlobal", size, binary.module, name.encode()))
        return binary.module

    def _code(self, binary: FatBinary) -> bytes:
        """The image of the fat binary that suits the device: a cubin or the text of PTX."""
        magic, _, container, _ = _WRAPPER.unpack(ctypes.string_at(binary.wrapper, _WRAPPER.size))
        if magic != _WRAPPER_MAGIC:
            raise DriverError(INVALID_IMAGE, "the program registers device code that is no fat binary")
        header = _CONTAINER.unpack(ctypes.string_at(container, _CONTAINER.size))
        data = ctypes.string_at(container, header[2] + header[3])
        major, minor = self._state.driver.device.spec.capability
        capability = major, minor
        try:
            modules = [FatModule(images) for images in containers(data, 0, len(data))]
            for module in modules:
                image = best_image(module, capability)
                if image is not None:
                    return image.content()
        except CompileError as error:
            raise DriverError(INVALID_IMAGE, str(error)) from None
        held = ", ".join(
            dict.fromkeys(
                f"{'PTX' if image.is_ptx else 'machine code'} for {image.target}"
                for module in modules
                for image in module.images
            )
        )
        name = self._state.driver.device.spec.name
        raise DriverError(
            NO_BINARY_FOR_GPU,
            f"the program holds {held or 'no device code'}, which does not run on {name}"
            f" (sm_{capability[0]}{capability[1]}): choose a GPU of its architecture with --gpu, or compile it for this one"
            f" (nvcc -arch=sm_{capability[0]}{capability[1]})",
        )

    # ---- variables ---------------------------------------------------------------------------

    @entry("cudaGetSymbolAddress", arguments=(HOST, HOST))
    def symbol_address(self, out: int, host: int) -> None:
        self._state.ready()
        write_word(out, self.variable(host)[0])

    @entry("cudaGetSymbolSize", arguments=(HOST, HOST))
    def symbol_size(self, out: int, host: int) -> None:
        self._state.ready()
        write_word(out, self.variable(host)[1])

    @entry("__cudaGetKernel", "cudaGetKernel", "cudaGetFuncBySymbol", arguments=(HOST, HOST))
    def get_kernel(self, out: int, host: int) -> None:
        self._state.ready()
        write_word(out, self.kernel(host))

    @entry("cudaFuncGetName", arguments=(HOST, HOST))
    def kernel_name(self, out: int, host: int) -> None:
        self._state.ready()
        pointer = (c_char_p * 1)()
        self._state.call("cuFuncGetName", pointer, self.kernel(host))
        write_word(out, ctypes.cast(pointer, ctypes.POINTER(WORD))[0])


#: Functions whose result is no error: what they return.
RESULTS = {
    "__cudaRegisterFatBinary": ctypes.c_uint64,
    "__cudaInitModule": c_char,
    **dict.fromkeys(
        (
            "__cudaRegisterFatBinaryEnd", "__cudaUnregisterFatBinary", "__cudaRegisterFunction", "__cudaRegisterVar",
            "__cudaRegisterManagedVar", "__cudaRegisterHostVar",
        )
    ),
}  # fmt: skip
