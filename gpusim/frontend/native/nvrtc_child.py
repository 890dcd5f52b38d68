"""NVRTC in a process of its own, which is asked on stdin and answers on stdout.

Mental model: one compilation. Why at all: with the name of a template among its name expressions, NVRTC (12.9 to 13.x)
does not report some errors in the source, such as a misspelt ``typename``, but ends its process with a segmentation
fault. That costs this process only, and its parent (:func:`gpusim.frontend.native.nvrtc.compile_cpp`) can still say
what is wrong. About 0.1 s of processor time. It opens the library that its parent compiles by, which need not be the
one it would find itself.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

import msgspec

from gpusim.errors import GpusimError
from gpusim.frontend.native.cpp_unit import CppError
from gpusim.frontend.native.nvrtc import Answer, Request, compile_here


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    try:
        request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Request)
        if request.library:
            ctypes.CDLL(request.library)
        answer = Answer(built=compile_here(request))
    except CppError as error:
        answer = Answer(error=str(error), in_source=True, log=error.log, no_kernel=error.no_kernel)
    except GpusimError as error:
        answer = Answer(error=str(error))
    with os.fdopen(answers, "wb") as out:
        out.write(msgspec.msgpack.encode(answer))
