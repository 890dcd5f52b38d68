"""The library that stands for libcuda.so.1: do its functions arrive in Python, on both processors that it is written
for?"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import types

import pytest
from elftools.elf.elffile import ELFFile

from gpusim.driver.elf_library import TABLE, Start, library_bytes
from gpusim.driver.library_folder import libraries_folder
from gpusim.driver.native_code import native_code
from gpusim.driver.python_library import loadable
from gpusim.driver.shared_library import SlotLibrary, open_library
from gpusim.errors import ToolchainError

NAMES = [f"function_{i}" for i in range(300)]
PARTS = ("first", "start", "forked", "not_initialized", "closed")
#: Never started here: the process is a Python already.
START = Start("libpython", "python", "pass")


def opened(folder, soname: str = "libgpusim_test.so.1", code: str = "pass", **more) -> SlotLibrary:
    path = folder / soname
    path.write_bytes(library_bytes(soname, NAMES, platform.machine(), Start("libpython", "python", code), **more))
    return open_library(path, NAMES)


def symbols(data: bytes) -> dict[str, int]:
    """Name -> address, read from the dynamic section as a loader would."""
    programs_at, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    headers = [struct.unpack_from("<IIQQQQQQ", data, programs_at + 56 * i) for i in range(count)]
    (dynamic,) = [h for h in headers if h[0] == 2]
    entries = dict(struct.iter_unpack("<QQ", data[dynamic[2] : dynamic[2] + dynamic[5]]))
    hash_at, strings_at, symbols_at = entries[4], entries[5], entries[6]
    chain_length = struct.unpack_from("<I", data, hash_at + 4)[0]
    found = {}
    for i in range(1, chain_length):
        name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, symbols_at + 24 * i)
        end = data.index(b"\0", strings_at + name)
        found[data[strings_at + name : end].decode()] = value
    return found


@pytest.mark.skipif(platform.system() != "Linux", reason="the library is for Linux")
def test_functions_jump_where_their_slots_point(tmp_path) -> None:
    library = opened(tmp_path)
    assert library.handle.function_7(1) == 3  # nobody has filled it: not initialised
    double = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda value: 2 * value)
    library.fill("function_299", double)
    assert library.handle.function_299(21) == 42 and library.handle.function_298(21) == 3
    again = ctypes.CDLL("libgpusim_test.so.1")  # found by its name alone, wherever the file is
    assert again.function_299(4) == 8
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(library.address_of("function_299"))(5) == 10
    library.close()
    assert library.handle.function_299(21) == 0


@pytest.mark.skipif(platform.system() != "Linux", reason="the library is for Linux")
def test_the_first_call_runs_python_and_keeps_its_arguments(tmp_path) -> None:
    sums = ctypes.CFUNCTYPE(ctypes.c_double, *(ctypes.c_int,) * 8, *(ctypes.c_double,) * 9)(lambda *values: sum(values))
    sys.modules["gpusim_first_call"] = found = types.ModuleType("gpusim_first_call")
    found.begin = lambda: library.fill("function_5", sums)
    library = opened(tmp_path, "libgpusim_first.so.1", "import gpusim_first_call; gpusim_first_call.begin()")
    call = ctypes.CFUNCTYPE(ctypes.c_double, *(ctypes.c_int,) * 8, *(ctypes.c_double,) * 9)(
        library.address_of("function_5")
    )
    integers, floats = [10**i for i in range(8)], [2.0**-i for i in range(9)]
    assert call(*integers, *floats) == sum(integers) + sum(floats)


@pytest.mark.skipif(platform.system() != "Linux", reason="the library is for Linux")
def test_after_a_fork_functions_refuse(tmp_path) -> None:
    library = opened(tmp_path, "libgpusim_fork.so.1", texts={"function_2": "not initialised"})
    double = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda value: 2 * value)
    for name in NAMES:
        library.fill(name, double)
    library.refuse_after_fork()
    library.handle.function_2.restype = ctypes.c_char_p
    child = os.fork()
    if not child:
        os._exit(10 * library.handle.function_1(4) + (library.handle.function_2(0) == b"not initialised"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 31
    assert library.handle.function_1(4) == 8


@pytest.mark.skipif(platform.system() != "Linux", reason="the library is for Linux")
def test_a_number_is_told_without_python(tmp_path) -> None:
    library = opened(tmp_path, "libgpusim_number.so.1", "raise SystemError", numbers={"function_3": 0x12345})
    number = ctypes.c_int(0)
    assert library.handle.function_3(ctypes.byref(number)) == 0 and number.value == 0x12345
    assert library.handle.function_3(None) == 1  # CUDA_ERROR_INVALID_VALUE
    child = os.fork()
    if not child:
        os._exit(library.handle.function_3(ctypes.byref(number)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    again = open_library(library.path, NAMES, ["function_3"])
    again.fill("function_3", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda out: 7))
    again.close()
    assert library.handle.function_3(None) == 1


def test_a_number_on_an_arm_processor() -> None:
    code = dict.fromkeys(PARTS, b"")
    data = library_bytes("libcudart.so.13", NAMES, "aarch64", START, numbers={"function_3": 0x12345}, code=code)
    # movz w1, #0x2345; movk w1, #1, lsl #16; cbz x0, 1f; str w1, [x0]; mov w0, #0; ret; 1: mov w0, #1; ret
    words = (0x528468A1, 0x72A00021, 0xB4000080, 0xB9000001, 0x52800000, 0xD65F03C0, 0x52800020, 0xD65F03C0)
    assert data.count(struct.pack("<8I", *words)) == 1


def test_symbols_have_the_version_that_programs_ask_for(tmp_path) -> None:
    data = library_bytes("libcudart.so.13", NAMES, "x86_64", START, "libcudart.so.13", code=dict.fromkeys(PARTS, b""))
    (tmp_path / "libcudart.so.13").write_bytes(data)
    with (tmp_path / "libcudart.so.13").open("rb") as stream:
        file = ELFFile(stream)
        versions = file.get_section_by_name(".gnu.version")
        symbols = file.get_section_by_name(".dynsym")
        given = {symbol.name: versions.get_symbol(i)["ndx"] for i, symbol in enumerate(symbols.iter_symbols())}
        defined = [
            next(auxiliaries).name for _, auxiliaries in file.get_section_by_name(".gnu.version_d").iter_versions()
        ]
    assert defined == ["libcudart.so.13"] * 2 and given["function_3"] == 2 and given["dlopen"] == "VER_NDX_GLOBAL"


def test_an_interpreter_without_a_library_serves_as_one() -> None:
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0
    )
    program = struct.pack("<IIQQQQQQ", 2, 6, 120, 120, 120, 32, 32, 8)
    dynamic = struct.pack("<4Q", 0x6FFFFFFB, 0x08000001, 0, 0)
    changed = loadable(header + program + dynamic)
    assert changed[:120] == header + program and struct.unpack_from("<2Q", changed, 120) == (0x6FFFFFFB, 1)
    fixed = bytearray(header)
    struct.pack_into("<H", fixed, 16, 2)
    assert struct.unpack_from("<H", loadable(bytes(fixed) + program + dynamic), 16) == (3,)
    with pytest.raises(ValueError, match="not a 64-bit ELF"):
        loadable(b"#!/bin/sh")


def test_the_stub_of_an_arm_processor_loads_its_own_slot() -> None:
    data = library_bytes("libcuda.so.1", NAMES, "aarch64", START, code=dict.fromkeys(PARTS, b""))
    addresses = symbols(data)
    for i, name in enumerate(NAMES):
        adrp, add, load, branch = struct.unpack_from("<4I", data, addresses[name])
        assert (adrp & 0x9F00_001F, add & 0xFFC0_03FF) == (0x9000_0010, 0x9100_0210)
        assert (load, branch) == (0xF940_0211, 0xD61F_0220)  # ldr x17, [x16]; br x17
        pages = (adrp >> 29 & 3) | (adrp >> 5 & 0x7FFFF) << 2
        page = (addresses[name] & ~0xFFF) + (pages << 12)
        assert page + (add >> 10 & 0xFFF) == addresses[TABLE] + 8 * i


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no code for this processor")
def test_the_native_code_needs_no_relocation() -> None:
    assert sorted(native_code(platform.machine())) == sorted(PARTS)


def test_another_processor_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(ToolchainError, match="riscv64"):
        libraries_folder.__wrapped__()
