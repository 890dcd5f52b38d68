"""Symbols of C++ as people write them: ``_Z5scaleIdEvPT_S0_`` is ``void scale<double>(double*, double)``.

Mental model: the demangler of the C++ runtime that every Python process of Linux has loaded anyway (``__cxa_demangle``
of the Itanium C++ ABI) is called in a process of its own: symbols come from files, and a short one can be made to stand
for gigabytes. Where there is no such runtime, or it does not answer, symbols stay as they are.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from functools import lru_cache

#: More symbols, or longer ones, are left as they are.
MOST_NAMES, MOST_LETTERS = 20_000, 4_000
_SECONDS = 10
_CHILD = """
import ctypes, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for library in ("libstdc++.so.6", "libc++abi.dylib"):
    try:
        call = ctypes.CDLL(library).__cxa_demangle
        break
    except (OSError, AttributeError):
        pass
call.restype, call.argtypes = ctypes.c_char_p, [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
for line in sys.stdin.buffer:
    made = call(line.strip(), None, None, None) or b""
    sys.stdout.buffer.write((made if len(made) < 10000 else b"") + b"\\n")
    sys.stdout.buffer.flush()
"""


@lru_cache(maxsize=16)
def demangled(names: tuple[str, ...]) -> dict[str, str]:
    """Each of ``names`` that is a C++ symbol -> its declaration; others are left out."""
    asked = [name for name in names if name.startswith("_Z") and len(name) < MOST_LETTERS][:MOST_NAMES]
    if not asked:
        return {}
    lines: list[str] = []
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _CHILD],
            input="\n".join(asked).encode(), capture_output=True, timeout=_SECONDS, check=False, start_new_session=True,
        )  # fmt: skip
        lines = done.stdout.decode("utf-8", "replace").split("\n")
    return {name: line for name, line in zip(asked, lines, strict=False) if line and line.isprintable()}


def spellings(declaration: str) -> tuple[str, ...]:
    """What a declaration's function may be called, without spaces: ``ns::scale<double>``, ``scale<double>``,
    ``ns::scale``, ``scale``, and the declaration itself."""
    text, depth = declaration, 0
    if text.endswith(")"):
        for at in range(len(text) - 1, -1, -1):
            depth += (text[at] == ")") - (text[at] == "(")
            if depth == 0:
                text = text[:at]
                break
    name, plain, depth, last = "", "", 0, 0
    for letter in text:
        if letter == " " and depth == 0:
            name, plain, last = "", "", 0  # what stood before it was the type that is returned
            continue
        depth -= letter in ">)"
        name += letter
        if depth == 0 and letter not in ">":
            plain += letter
        depth += letter in "<("
        if depth == 1 and letter == "<":
            plain = plain[:-1]
        if depth == 0 and name.endswith("::"):
            last = len(name)
    name, tail = name.replace(" ", ""), name[last:].replace(" ", "")
    return tuple(dict.fromkeys((declaration.replace(" ", ""), name, tail, plain, plain.rpartition("::")[2])))
