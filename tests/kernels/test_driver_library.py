"""The library that stands for libcuda.so.1: do its functions arrive in Python, on both processors that it is written for?"""

from __future__ import annotations

import ctypes
import platform
import struct

import pytest

from gpusim.driver import shared_library
from gpusim.driver.shared_library import library_bytes, open_library
from gpusim.errors import ToolchainError

NAMES = [f"function_{i}" for i in range(300)]


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
def test_functions_jump_where_their_slots_point() -> None:
    library = open_library("libgpusim_test.so.1", NAMES)
    assert library.handle.function_7() == 0  # closed: success, and Python is not entered
    double = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda value: 2 * value)
    library.table[NAMES.index("function_299")] = ctypes.cast(double, ctypes.c_void_p).value
    assert library.handle.function_299(21) == 42 and library.handle.function_298(21) == 0
    again = ctypes.CDLL("libgpusim_test.so.1")  # found by its name alone, though no file has it
    assert again.function_299(4) == 8
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(library.address_of("function_299"))(5) == 10
    library.close()
    assert library.handle.function_299(21) == 0


def test_the_stub_of_an_arm_processor_loads_its_own_slot() -> None:
    data = library_bytes("libcuda.so.1", NAMES, "aarch64")
    addresses = symbols(data)
    for i, name in enumerate(NAMES):
        adrp, load, branch = struct.unpack_from("<3I", data, addresses[name])
        assert (adrp & 0x9F00_001F, load & 0xFFC0_03FF, branch) == (0x9000_0010, 0xF940_0210, 0xD61F_0200)
        pages = (adrp >> 29 & 3) | (adrp >> 5 & 0x7FFFF) << 2
        page = (addresses[name] & ~0xFFF) + (pages << 12)
        assert page + (load >> 10 & 0xFFF) * 8 == addresses[shared_library.TABLE] + 8 * i


def test_another_processor_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(ToolchainError, match="riscv64"):
        open_library("libcuda.so.1", NAMES)
