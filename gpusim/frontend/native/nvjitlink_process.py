"""nvJitLink, to be run as a process of its own that is asked on stdin and answers on stdout; imports nothing but the
standard library.

Mental model: :func:`run` is one run of the linker. Why a process: nvJitLink (13.0 to 13.5) does not report some faults
in what it is given, such as one register where an instruction takes several or an ``-arch`` that it does not know, but
ends its process, most with a segmentation fault. That costs this process only, and its parent
(:mod:`gpusim.frontend.native.link_process`) can still say so.

Why by ctypes: the process starts without the site packages, in about 0.02 s of processor time; ``cuda.bindings`` takes
0.1 s.
"""

from __future__ import annotations

import _thread
import ctypes
import io
import os
import resource
import select
import sys
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p

#: Bytes of a read.
_MOST_AT_ONCE = 1 << 20
_ARGUMENTS = {
    "nvJitLinkCreate": (POINTER(c_void_p), c_uint32, POINTER(c_char_p)),
    "nvJitLinkAddData": (c_void_p, c_int, c_char_p, c_size_t, c_char_p),
    "nvJitLinkComplete": (c_void_p,),
    "nvJitLinkGetLinkedCubinSize": (c_void_p, POINTER(c_size_t)),
    "nvJitLinkGetLinkedCubin": (c_void_p, c_char_p),
    "nvJitLinkGetErrorLogSize": (c_void_p, POINTER(c_size_t)),
    "nvJitLinkGetErrorLog": (c_void_p, c_char_p),
    "nvJitLinkGetInfoLogSize": (c_void_p, POINTER(c_size_t)),
    "nvJitLinkGetInfoLog": (c_void_p, c_char_p),
    "nvJitLinkDestroy": (POINTER(c_void_p),),
}


def send(pipe: io.FileIO, parts: Sequence[bytes]) -> None:
    """Write a message: how many parts, then each with its length before it, 8 bytes a number."""
    pieces = [len(parts).to_bytes(8, "little")]
    for part in parts:
        pieces += [len(part).to_bytes(8, "little"), part]
    rest = memoryview(b"".join(pieces))
    while rest:
        rest = rest[pipe.write(rest) :]


def receive(pipe: io.FileIO) -> list[bytes] | None:
    """The next message; None where it ends before it is whole, or where there is none."""
    if (count := _number(pipe)) is None:
        return None
    parts = []
    for _ in range(count):
        size = _number(pipe)
        part = None if size is None else _read(pipe, size)
        if part is None:
            return None
        parts.append(part)
    return parts


def _number(pipe: io.FileIO) -> int | None:
    content = _read(pipe, 8)
    return None if content is None else int.from_bytes(content, "little")


def _read(pipe: io.FileIO, size: int) -> bytes | None:
    """So many bytes, however many reads they take; None where there are fewer."""
    pieces = []
    while size and (piece := pipe.read(min(size, _MOST_AT_ONCE))):
        pieces.append(piece)
        size -= len(piece)
    return None if size else b"".join(pieces)


def run(library: str, flags: Sequence[bytes], parts: Sequence[tuple[int, bytes, bytes]]) -> tuple[int, bytes, str, str]:
    """One run of the nvJitLink in file ``library`` over ``parts``, (input type, name, content) each: (nvJitLinkResult,
    cubin, log of what it says, log of errors); no cubin unless the result is 0. Raises OSError where there is no such
    library."""
    linker = ctypes.CDLL(library)
    for name, arguments in _ARGUMENTS.items():
        getattr(linker, name).argtypes = arguments
    handle = c_void_p()
    result = linker.nvJitLinkCreate(byref(handle), len(flags), (c_char_p * len(flags))(*flags))
    if result:
        return result, b"", "", ""
    cubin, errors = b"", ""
    try:
        for kind, name, content in parts:
            result = linker.nvJitLinkAddData(handle, kind, content, len(content), name)
            if result:
                break
        result = result or linker.nvJitLinkComplete(handle)
        if not result:
            result, cubin = _content(handle, linker.nvJitLinkGetLinkedCubinSize, linker.nvJitLinkGetLinkedCubin)
        if result:
            cubin, errors = b"", _log(handle, linker.nvJitLinkGetErrorLogSize, linker.nvJitLinkGetErrorLog)
        info = _log(handle, linker.nvJitLinkGetInfoLogSize, linker.nvJitLinkGetInfoLog)
    finally:
        linker.nvJitLinkDestroy(byref(handle))
    return result, cubin, info, errors


def _content(handle: c_void_p, size_of: Callable[..., int], read: Callable[..., int]) -> tuple[int, bytes]:
    """What one pair of nvJitLink's functions gives, and the result of that."""
    size = c_size_t()
    result = size_of(handle, byref(size))
    content = ctypes.create_string_buffer(size.value)
    result = result or (read(handle, content) if size.value else 0)
    return result, b"" if result else content.raw


def _log(handle: c_void_p, size_of: Callable[..., int], read: Callable[..., int]) -> str:
    """One of the linker's logs."""
    return _content(handle, size_of, read)[1].rstrip(b"\0").decode(errors="replace")


def serve(library: str) -> None:
    """Answer requests until nobody can ask any more, also in the middle of a run: with the one who asks gone, nobody
    else would end it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = io.FileIO(0, "rb", closefd=False), io.FileIO(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever the library prints is no answer
    _thread.start_new_thread(_end_with_the_pipe, (0,))
    while (request := receive(requests)) is not None:
        flags = int.from_bytes(request[0], "little")
        rest = request[1 + flags :]
        parts = [
            (int.from_bytes(kind, "little"), name, content)
            for kind, name, content in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        ]
        try:
            result, cubin, info, errors = run(library, request[1 : 1 + flags], parts)
        except OSError as error:
            send(answers, (str(error).encode(),))
            continue
        send(answers, (result.to_bytes(8, "little"), cubin, info.encode(), errors.encode()))


def _end_with_the_pipe(descriptor: int) -> None:
    """Wait until the other end of a pipe is closed, then end this process."""
    waiting = select.poll()
    waiting.register(descriptor, 0)  # nothing but the other end's closing wakes it
    waiting.poll()
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
