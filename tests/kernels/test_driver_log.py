"""The log of the emulated driver: does a program that asks for it read why a call has failed?"""

from __future__ import annotations

import ctypes

import pytest
from driver_api import Api

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)


@pytest.fixture
def api() -> Api:
    return Api()


def fail(api: Api, number: int) -> str:
    """Make a call that is wrong; what the log says of it."""
    assert api.code("cuDeviceGet", ctypes.byref(ctypes.c_int()), number) == "INVALID_DEVICE"
    return api.driver.details[-1]


def dumped(api: Api, size: int, iterator: ctypes.c_uint | None = None) -> tuple[str, bytes, int]:
    """(error, text, size told) of a dump to ``size`` bytes of memory."""
    text, told = ctypes.create_string_buffer(b"?" * size, size), ctypes.c_size_t(size)
    where = None if iterator is None else ctypes.byref(iterator)
    return api.code("cuLogsDumpToMemory", where, ctypes.addressof(text), ctypes.byref(told), 0), text.value, told.value


def test_who_registers_is_called_until_it_does_not_want_to_be(api) -> None:
    heard: list[tuple] = []
    callback = CALLBACK(lambda data, level, text, size: heard.append((data, level, text.decode(), size)))
    handle = ctypes.c_uint64()
    api.cuLogsRegisterCallback(ctypes.cast(callback, ctypes.c_void_p).value, 5, ctypes.byref(handle))
    said = fail(api, 3)
    assert said and heard == [(5, 0, said, len(said))]
    api.cuLogsUnregisterCallback(handle)
    fail(api, 4)
    assert len(heard) == 1
    assert api.code("cuLogsUnregisterCallback", handle) == "INVALID_HANDLE"


def test_a_dump_goes_on_where_the_last_one_ended(api, tmp_path) -> None:
    assert dumped(api, 10) == ("SUCCESS", b"", 0)
    first, iterator = fail(api, 3), ctypes.c_uint()
    api.cuLogsCurrent(ctypes.byref(iterator), 0)
    second = fail(api, 4)
    assert dumped(api, 1000) == ("SUCCESS", f"{first}\n{second}\n".encode(), len(first) + len(second) + 2)
    assert dumped(api, 1000, iterator)[1] == f"{second}\n".encode() and dumped(api, 1000, iterator)[2] == 0
    api.cuLogsDumpToFile(None, str(tmp_path / "log").encode(), 0)
    assert (tmp_path / "log").read_text() == f"{first}\n{second}\n"
    assert api.code("cuLogsDumpToFile", None, str(tmp_path / "no" / "log").encode(), 0) == "INVALID_VALUE"


def test_what_has_no_room_is_the_oldest(api) -> None:
    fail(api, 3)
    last = fail(api, 4)
    error, text, size = dumped(api, 40 + len(last))
    assert error == "SUCCESS" and size == len(text) and text.decode().splitlines()[1:] == [last]
    assert "left out" in text.decode().splitlines()[0]
    assert dumped(api, 20)[::2] == ("INVALID_VALUE", 0)
    for _ in range(600):
        fail(api, 3)
    kept = dumped(api, 30000)[1].decode().splitlines()
    assert len("\n".join(kept)) < 25700 and "left out" in kept[0] and set(kept[1:]) == {api.driver.details[-1]}


def test_an_exception_that_is_but_a_number_is_explained(api) -> None:
    said = fail(api, 3)
    error = type("AcceleratorError", (RuntimeError,), {"__module__": "torch"})
    assert api.driver.explain(error("CUDA error: invalid device ordinal")) == said
    assert api.driver.explain(RuntimeError("of something else")) is None
