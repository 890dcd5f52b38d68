"""What one input did to a reader: taken, refused as it should be, or a fault.

Mental model: a reader may take an input or raise a :class:`GpusimError` of one line, which names the file and has an
exit code of its own; it has a second of processor time and some memory beyond what the process had. Everything else is
a fault, named so that the same fault has the same name whatever the input.
"""

from __future__ import annotations

import contextlib
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpusim.errors import GpusimError

MOST_SECONDS = 1.0
_INTERNAL = GpusimError.exit_code
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\d+|'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True)
class Outcome:
    """``what``: the same for inputs that fared alike; ``fault``: empty where all is well; ``seconds`` of processor
    time."""

    what: str
    fault: str
    seconds: float
    detail: str = ""


def judge(read: Callable[[Path], object], path: Path, most_bytes: int, check_time: bool = True) -> Outcome:
    """Have the file at ``path`` read. ``most_bytes``: by how much the process may grow for it."""
    forget_peak()
    before, started = peak_bytes(), time.process_time()
    what, fault, detail = "taken", "", ""
    try:
        what = str(read(path) or what)
    except GpusimError as error:
        what = _kind(error)
        fault = _wrong_refusal(error, path)
    except Exception as error:
        what = fault = f"{type(error).__name__} in {_place(error)}"
        detail = "".join(traceback.format_exception(error)[-6:])
    seconds = time.process_time() - started
    grown = peak_bytes() - before
    if not fault and grown > most_bytes:
        fault, detail = f"takes more than {most_bytes >> 20} MiB ({what})", f"{grown >> 20} MiB"
    if not fault and check_time and seconds > MOST_SECONDS:
        # Once more: the first time may have imported or compiled something.
        again = time.process_time()
        try:
            read(path)
        except Exception as error:
            detail = f"{type(error).__name__}"
        again = time.process_time() - again
        if again > MOST_SECONDS:
            fault, detail = f"takes more than {MOST_SECONDS:g} s ({what})", f"{again:.1f} s {detail}"
    return Outcome(what, fault, seconds, detail)


def forget_peak() -> None:
    """Begin to measure the peak anew, where the system can (Linux): growth below an earlier peak would not be seen."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # proc(5): resets the peak resident set size


def peak_bytes() -> int:
    """The most memory that this process has had since :func:`forget_peak`."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _kind(error: Exception) -> str:
    """The error's class and message without what differs from file to file."""
    return f"{type(error).__name__}: {_VARIABLE.sub('#', str(error))[:160]}"


def _wrong_refusal(error: GpusimError, path: Path) -> str:
    text = str(error)
    place = f"{type(error).__name__} in {_place(error)}"
    if not text.strip() or len(text.splitlines()) > 1:
        return f"a message that is no line: {place}"
    if path.name not in text:
        return f"a message that names no file: {place}"
    if error.exit_code == _INTERNAL:
        return f"an internal error's exit code: {place}"
    return ""


def _place(error: BaseException) -> str:
    """The innermost function of gpusim, else of anybody, that the error came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame for frame in frames if "gpusim" in Path(frame.filename).parts and "site-packages" not in frame.filename
    ]
    if not frames:
        return "nowhere"
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.name}"
