"""Which shared library has called a function of the emulated driver: a refusal is understood when it names who was
refused.

Mental model: the C stack is walked outward from here, past Python, until an address lies in a file that is none of
ours.
"""

from __future__ import annotations

import ctypes
import os

from gpusim.driver.library_folder import SONAME

_MOST_FRAMES = 64
#: Files between a function of the library and here: the interpreter, ctypes, what they call.
_OURS = ("python", "libpython", "_ctypes", "libffi", SONAME, "libc.so", "libc-", "libgcc_s", "ld-linux")


class _Place(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def calling_library() -> str:
    """Its file's name, empty where it cannot be told: the C library has no ``backtrace`` (musl), or Python has
    called."""
    libc = ctypes.CDLL(None)
    try:
        walk, place_of = libc.backtrace, libc.dladdr
    except AttributeError:
        return ""
    frames, place = (ctypes.c_void_p * _MOST_FRAMES)(), _Place()
    for frame in frames[: walk(frames, _MOST_FRAMES)]:
        if frame and place_of(ctypes.c_void_p(frame), ctypes.byref(place)) and place.file:
            name = os.path.basename(os.fsdecode(place.file))
            if not name.startswith(_OURS):
                return name
    return ""
