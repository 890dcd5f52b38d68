"""An ELF shared library whose functions jump through a table of addresses, written without a compiler.

Mental model: whoever speaks to a GPU opens ``libcuda.so.1`` and looks up C functions in it. The library
made here has those names; each function is one jump to the address in its slot of a table, and the table's
slots are filled from Python. The dynamic loader knows an opened library by its SONAME, so once this one is
open, later requests for ``libcuda.so.1`` in this process find it, wherever they come from.

The layout follows the System V ABI (gABI chapters 4 and 5) and its processor supplements for x86-64 and
AArch64. Two segments: headers, symbols and code (read, execute); dynamic section and table (read, write).
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.errors import ToolchainError

TABLE = "gpusim_table"
CLOSED = "gpusim_closed"
#: What CLOSED returns: CUDA_SUCCESS, since only destructors call while a process is being torn down.
CLOSED_RESULT = 0
_STUB_BYTES = 16
_SEGMENT_ALIGNMENT = 0x10000
_EM = {"x86_64": 62, "aarch64": 183}
_HEADER_BYTES, _PROGRAM_HEADER_BYTES, _SYMBOL_BYTES = 64, 56, 24
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_READ_EXECUTE, _READ_WRITE = 5, 6
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 4, 5, 6, 10, 11, 14
_GLOBAL_FUNCTION, _GLOBAL_OBJECT = 0x12, 0x11


@dataclass(frozen=True)
class SlotLibrary:
    """An open library: ``table`` (one address per function, in the order of ``names``), ``closed`` the
    address of a function that only returns CLOSED_RESULT."""

    names: tuple[str, ...]
    table: ctypes.Array
    closed: int
    handle: ctypes.CDLL

    def close(self) -> None:
        """From now on every function returns CLOSED_RESULT without entering Python."""
        for slot in range(len(self.names)):
            self.table[slot] = self.closed

    def address_of(self, name: str) -> int:
        """The address at which C code calls ``name``."""
        return ctypes.cast(getattr(self.handle, name), ctypes.c_void_p).value


def open_library(soname: str, names: Sequence[str]) -> SlotLibrary:
    """Write the library to a temporary file, open it for the whole process, and remove the file.

    Every function returns CLOSED_RESULT until its slot is filled. Raises ToolchainError on a processor or
    system for which no code can be written.
    """
    if platform.system() != "Linux" or platform.machine() not in _EM:
        raise ToolchainError(
            f"running a script needs Linux on x86-64 or AArch64, this is {platform.system()} on {platform.machine()}:"
            f" call gpusim.capture instead"
        )
    data = library_bytes(soname, names, platform.machine())
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = os.path.join(folder, soname)
        with open(path, "wb") as stream:
            stream.write(data)
        try:
            handle = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise ToolchainError(
                f"the driver library cannot be opened ({error}): is {folder} mounted noexec?"
            ) from None
    table = (ctypes.c_uint64 * len(names)).in_dll(handle, TABLE)
    closed = ctypes.cast(getattr(handle, CLOSED), ctypes.c_void_p).value
    library = SlotLibrary(tuple(names), table, closed, handle)
    library.close()
    return library


def library_bytes(soname: str, names: Sequence[str], machine: str) -> bytes:
    """The file: functions ``names``, then CLOSED, and the table TABLE of 8-byte slots."""
    symbols = [*names, CLOSED, TABLE]
    strings = bytearray(1)
    offsets = {}
    for name in (*symbols, soname):
        offsets[name] = len(strings)
        strings += name.encode() + b"\0"
    hash_at = _HEADER_BYTES + 4 * _PROGRAM_HEADER_BYTES
    hashes = _hash_table(symbols)
    symbols_at = _up(hash_at + len(hashes), 8)
    strings_at = symbols_at + _SYMBOL_BYTES * (len(symbols) + 1)
    code_at = _up(strings_at + len(strings), _STUB_BYTES)
    code_bytes = _STUB_BYTES * (len(names) + 1)
    dynamic_at = _up(code_at + code_bytes, _SEGMENT_ALIGNMENT)
    dynamic = struct.pack(
        "<14Q",
        *(_DT_SONAME, offsets[soname], _DT_HASH, hash_at, _DT_STRTAB, strings_at, _DT_SYMTAB, symbols_at),
        *(_DT_STRSZ, len(strings), _DT_SYMENT, _SYMBOL_BYTES, 0, 0),
    )
    table_at = dynamic_at + len(dynamic)
    end = table_at + 8 * len(names)

    stub, closed = _CODE[machine]
    code = b"".join(
        stub(code_at + _STUB_BYTES * i, table_at + 8 * i).ljust(_STUB_BYTES, b"\0") for i in range(len(names))
    ) + closed.ljust(_STUB_BYTES, b"\0")
    entries = [bytes(_SYMBOL_BYTES)]
    for i, name in enumerate((*names, CLOSED)):
        entries.append(struct.pack("<IBBHQQ", offsets[name], _GLOBAL_FUNCTION, 0, 1, code_at + 16 * i, _STUB_BYTES))
    entries.append(struct.pack("<IBBHQQ", offsets[TABLE], _GLOBAL_OBJECT, 0, 1, table_at, 8 * len(names)))

    identification = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header = identification + struct.pack(
        "<HHIQQQIHHHHHH", 3, _EM[machine], 1, 0, _HEADER_BYTES, 0, 0, _HEADER_BYTES, _PROGRAM_HEADER_BYTES, 4, 64, 0, 0
    )
    program_headers = b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, start, start, start, stop - start, stop - start, alignment)
        for kind, flags, start, stop, alignment in (
            (_PT_LOAD, _READ_EXECUTE, 0, code_at + code_bytes, _SEGMENT_ALIGNMENT),
            (_PT_LOAD, _READ_WRITE, dynamic_at, end, _SEGMENT_ALIGNMENT),
            (_PT_DYNAMIC, _READ_WRITE, dynamic_at, table_at, 8),
            (_PT_GNU_STACK, _READ_WRITE, 0, 0, 16),
        )
    )
    file = bytearray(end)
    for start, part in (
        (0, header + program_headers),
        (hash_at, hashes),
        (symbols_at, b"".join(entries)),
        (strings_at, strings),
        (code_at, code),
        (dynamic_at, dynamic),
    ):
        file[start : start + len(part)] = part
    return bytes(file)


def _up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def _hash_table(symbols: Sequence[str]) -> bytes:
    """The gABI hash table; entry 0 of the symbol table is empty."""
    buckets = [0] * max(1, len(symbols))
    chain = [0] * (len(symbols) + 1)
    for index, name in enumerate(symbols, 1):
        value = 0
        for byte in name.encode():
            value = (value << 4) + byte
            high = value & 0xF000_0000
            value = (value ^ (high >> 24)) & ~high
        bucket = value % len(buckets)
        chain[index], buckets[bucket] = buckets[bucket], index
    return struct.pack(f"<{2 + len(buckets) + len(chain)}I", len(buckets), len(chain), *buckets, *chain)


def _x86_64_stub(place: int, slot: int) -> bytes:
    """endbr64; jmp *slot(%rip)"""
    return b"\xf3\x0f\x1e\xfa\xff\x25" + struct.pack("<i", slot - (place + 10))


def _aarch64_stub(place: int, slot: int) -> bytes:
    """adrp x16, slot; ldr x16, [x16, #lo12(slot)]; br x16"""
    pages = (slot >> 12) - (place >> 12)
    adrp = 0x9000_0010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    load = 0xF940_0210 | (slot & 0xFFF) >> 3 << 10
    return struct.pack("<3I", adrp, load, 0xD61F_0200)


_CODE = {
    "x86_64": (_x86_64_stub, b"\xb8" + struct.pack("<I", CLOSED_RESULT) + b"\xc3"),  # mov $4, %eax; ret
    "aarch64": (_aarch64_stub, struct.pack("<2I", 0x5280_0000 | CLOSED_RESULT << 5, 0xD65F_03C0)),
}
