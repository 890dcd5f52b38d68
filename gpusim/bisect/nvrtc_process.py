"""One compilation by an NVRTC of any version: a question in JSON on stdin, the answer in JSON on stdout.

Mental model: a process holds one version of a library; so each version that is tried has a process of its own, which
opens the library by its path and needs nothing of the installed one. Source of the calls: NVRTC's documentation, "Basic
Usage", unchanged from 12.0 to 13.x.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Mapping
from typing import Any


class _Refused(Exception):
    """The library's log or error code."""


def compile_one(question: Mapping[str, Any]) -> dict[str, str]:
    """Answer ``question``: the cubin in hexadecimal, the PTX, the kernel's symbol; or ``error``, the compiler's log."""
    library = ctypes.CDLL(question["library"])
    program = ctypes.c_void_p()
    headers = question["headers"]

    def checked(code: int, call: str) -> None:
        if code:
            size = ctypes.c_size_t()
            log = ""
            if program and not library.nvrtcGetProgramLogSize(program, ctypes.byref(size)):
                text = ctypes.create_string_buffer(size.value + 1)
                library.nvrtcGetProgramLog(program, text)
                log = text.value.decode(errors="replace")
            raise _Refused(log.strip() or f"error: {call} gave {code}")

    def content(kind: str) -> bytes:
        size = ctypes.c_size_t()
        checked(getattr(library, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)), kind)
        data = ctypes.create_string_buffer(size.value)
        checked(getattr(library, f"nvrtcGet{kind}")(program, data), kind)
        return data.raw

    try:
        texts, names = (_strings([header[place] for header in headers]) for place in (1, 0))
        source, file = question["source"].encode(), question["file"].encode()
        checked(
            library.nvrtcCreateProgram(ctypes.byref(program), source, file, len(headers), texts, names),
            "nvrtcCreateProgram",
        )
        entry = question["entry"].encode()
        checked(library.nvrtcAddNameExpression(program, entry), "nvrtcAddNameExpression")
        options = [*question["options"], *(f"-I{folder}" for folder in question["folders"])]
        checked(library.nvrtcCompileProgram(program, len(options), _strings(options)), "nvrtcCompileProgram")
        lowered = ctypes.c_char_p()
        checked(library.nvrtcGetLoweredName(program, entry, ctypes.byref(lowered)), "nvrtcGetLoweredName")
        symbol = (lowered.value or b"").decode()
        text = content("PTX").rstrip(b"\0").decode()
        return {"cubin": content("CUBIN").hex(), "ptx": text, "entry": symbol, "error": ""}
    except _Refused as refused:
        return {"cubin": "", "ptx": "", "entry": "", "error": str(refused)}


def _strings(values: list[str]) -> Any:
    return (ctypes.c_char_p * max(1, len(values)))(*(value.encode() for value in values))


def main() -> None:
    """Answer one question."""
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever the library prints is no answer
    answer = compile_one(json.loads(sys.stdin.read()))
    with os.fdopen(answers, "w") as out:
        json.dump(answer, out)


if __name__ == "__main__":
    main()
