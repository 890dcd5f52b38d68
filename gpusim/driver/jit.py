"""The driver's assembler and linker: nvJitLink, with the options and log buffers of CUjit_option.

Mental model: a program gives options as two arrays, numbers and 64-bit values; some ask for something, some say where
logs are to go. What nvJitLink says is written there, whether it succeeds or not.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from ctypes import c_float, c_int, c_uint64
from dataclasses import dataclass, field

from cuda.bindings import nvjitlink  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

from gpusim.driver.abi import INVALID_IMAGE, INVALID_PTX, INVALID_VALUE, DriverError
from gpusim.frontend.native.link import run_linker
from gpusim.frontend.native.ptx_text import raised

# CUjit_option
(_MAX_REGISTERS, _THREADS, _WALL_TIME, _INFO, _INFO_BYTES, _ERROR, _ERROR_BYTES, _LEVEL) = range(8)
_DEBUG, _VERBOSE, _LINES = 11, 12, 13
_KNOWN_OPTIONS = 37
_ASKING = {
    _MAX_REGISTERS: "-maxrregcount={}",
    _LEVEL: "-O{}",
    _DEBUG: "-g",
    _VERBOSE: "-verbose",
    _LINES: "-lineinfo",
}
#: CUjitInputType -> what it is to nvJitLink.
INPUTS = {
    0: nvjitlink.InputType.CUBIN,
    1: nvjitlink.InputType.PTX,
    2: nvjitlink.InputType.FATBIN,
    3: nvjitlink.InputType.OBJECT,
    4: nvjitlink.InputType.LIBRARY,
}
PTX_INPUT = 1


@dataclass
class JitOptions:
    """``flags`` for nvJitLink; ``values``: the program's own values by CUjit_option, ``places`` where they lie."""

    flags: list[str] = field(default_factory=list)
    values: dict[int, int] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)

    def tell(self, info: str, error: str, seconds: float) -> None:
        """Write logs and time where the program asked for them."""
        for buffer, size, text in ((_INFO, _INFO_BYTES, info), (_ERROR, _ERROR_BYTES, error)):
            room = self.values.get(size, 0) & 0xFFFFFFFF
            if self.values.get(buffer) and room:
                data = text.encode()[: room - 1] + b"\0"
                ctypes.memmove(self.values[buffer], data, len(data))
                c_uint64.from_address(self.places[size]).value = len(data) - 1
        if _WALL_TIME in self.places:
            c_float.from_address(self.places[_WALL_TIME]).value = 1e3 * seconds


def options_at(count: int, numbers: int, values: int) -> JitOptions:
    """The options in two arrays of the program; raises DriverError."""
    found = JitOptions()
    if count and not (numbers and values):
        raise DriverError(INVALID_VALUE, f"{count} options, and no array of them")
    for i in range(count):
        number = c_int.from_address(numbers + 4 * i).value
        place = values + 8 * i
        value = c_uint64.from_address(place).value
        if not 0 <= number < _KNOWN_OPTIONS:
            raise DriverError(INVALID_VALUE, f"CUjit_option {number} is not known")
        found.values[number], found.places[number] = value, place
        if number in _ASKING and (value or number == _LEVEL):
            found.flags.append(_ASKING[number].format(value & 0xFFFFFFFF))
    return found


def link(parts: Sequence[tuple[int, str, bytes]], target: str, options: JitOptions) -> bytes:
    """The cubin of ``parts``, (CUjitInputType, name, content) each, for ``target`` (``sm_90``); raises DriverError,
    with what the linker says."""
    started = time.perf_counter()
    done = run_linker(
        [f"-arch={target}", *options.flags],
        [(INPUTS[kind], name, _raised(content) if kind == PTX_INPUT else content) for kind, name, content in parts],
        keep=False,  # the program may wait for whatever children there are
    )
    options.tell(done.info, done.error, time.perf_counter() - started)
    if done.error:
        told = " ".join(done.error.split())[:400]
        only_ptx = all(kind == PTX_INPUT for kind, _, _ in parts)
        raise DriverError(INVALID_PTX if only_ptx else INVALID_IMAGE, f"the code does not link for {target}: {told}")
    return done.cubin


def _raised(text: bytes) -> bytes:
    """PTX, for an architecture that the linker knows."""
    return raised(text.rstrip(b"\0").decode(errors="replace")).encode()
