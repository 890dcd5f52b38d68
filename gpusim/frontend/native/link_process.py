"""The process that nvJitLink runs in, as its parent sees it: started at the first link, kept for the next, gone with
its parent.

Mental model: a question and its answer, and an answer even where the linker ends its process. One process is kept; it
is not in the terminal's group, so Ctrl-C reaches the parent alone, which ends it. Who asks while it is busy, or must
leave no process behind (an emulated driver's program may wait for all of its children), gets one of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution

from cuda import pathfinder  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

from gpusim.errors import ToolchainError
from gpusim.frontend.native import nvjitlink_process

INSTALL_HINT = "pip install nvidia-nvjitlink"
OLDER_PACKAGE, OLDER_HINT = "nvidia-nvjitlink-cu12", 'pip install "gpusim[volta]"'
#: Of what the linker printed before it ended its process, so much is looked at, in bytes.
_LAST_WORDS = 4096
_MOST_LETTERS = 200

#: (nvJitLinkResult, cubin, what it says, its errors)
Answer = tuple[int, bytes, str, str]
Parts = Sequence[tuple[int, bytes, bytes]]


class EndedItself(Exception):
    """The linker ended its process; the text says how."""


class LinkProcess:
    """One process; raises OSError where none can be started."""

    def __init__(self, library: str) -> None:
        self._printed = tempfile.TemporaryFile(prefix="gpusim-")  # noqa: SIM115  (closed with the process)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", nvjitlink_process.__file__, library],
                bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._printed, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            self._printed.close()
            raise

    def ask(self, flags: Sequence[bytes], parts: Parts) -> Answer:
        """As :func:`gpusim.frontend.native.nvjitlink_process.run`. Raises EndedItself and ToolchainError; after
        anything that is raised the process is gone."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert isinstance(stdin, io.FileIO) and isinstance(stdout, io.FileIO)  # bufsize=0
        request = [len(flags).to_bytes(8, "little"), *flags]
        for kind, name, content in parts:
            request += [kind.to_bytes(8, "little"), name, content]
        try:
            with contextlib.suppress(BrokenPipeError):
                nvjitlink_process.send(stdin, request)
            answer = nvjitlink_process.receive(stdout)
            if answer is None:
                raise self._how_it_ended(self._process.wait())
        except BaseException:
            self.stop()
            raise
        if len(answer) == 1:
            self.stop()
            raise ToolchainError(f"nvJitLink: {answer[0].decode(errors='replace')}; {INSTALL_HINT}")
        result, cubin, info, errors = answer
        return int.from_bytes(result, "little"), cubin, info.decode(), errors.decode()

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self._close()

    def forget(self) -> None:
        """Leave it to another process, whose child it is."""
        self._process.returncode = 0
        self._close()

    def _close(self) -> None:
        for file in (self._process.stdin, self._process.stdout, self._printed):
            if file is not None:
                file.close()

    def _how_it_ended(self, code: int) -> EndedItself:
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _LAST_WORDS))
        lines = self._printed.read().decode(errors="replace").strip().splitlines()
        said = " ".join(lines[-1].split())[:_MOST_LETTERS] if lines else ""
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return EndedItself(f"nvJitLink itself ended with {how}" + (f" ({said})" if said else ""))


class _Kept:
    """The process that is kept, if any, and who may ask it now."""

    def __init__(self) -> None:
        self.free = threading.Lock()
        self.process: LinkProcess | None = None


_kept = _Kept()


def ask(flags: Sequence[str], parts: Sequence[tuple[int, str, bytes]], *, keep: bool, older: bool = False) -> Answer:
    """As :func:`gpusim.frontend.native.nvjitlink_process.run`, in a process of its own, which is kept for the next
    question if ``keep`` and it is not the ``older`` linker, that of CUDA 12. Raises EndedItself and ToolchainError."""
    library = _older_library() if older else _library()
    encoded = [flag.encode(errors="surrogateescape") for flag in flags]
    given = [(kind, name.encode(errors="surrogateescape"), content) for kind, name, content in parts]
    if keep and not older and _kept.free.acquire(blocking=False):
        try:
            process, _kept.process = _kept.process or _start(library), None
            # A process that ended since it was last asked says nothing of this question: it is put once more.
            with contextlib.suppress(EndedItself):
                if process is not None:
                    answer = process.ask(encoded, given)
                    _kept.process = process
                    return answer
        finally:
            _kept.free.release()
    process = _start(library)
    if process is None:
        return nvjitlink_process.run(library, encoded, given)
    try:
        return process.ask(encoded, given)
    finally:
        process.stop()


def _start(library: str) -> LinkProcess | None:
    """A process; None in another program's interpreter, and where there is no room for one."""
    with contextlib.suppress(OSError):
        return LinkProcess(library) if sys.executable else None
    return None


@cache
def _library() -> str:
    """The file of nvJitLink. Raises ToolchainError."""
    try:
        found = pathfinder.load_nvidia_dynamic_lib("nvJitLink").abs_path
    except pathfinder.DynamicLibNotFoundError as error:
        raise ToolchainError(f"nvJitLink: {' '.join(str(error).split())[:_MOST_LETTERS]}; {INSTALL_HINT}") from None
    return str(found)


def has_older() -> bool:
    """Whether CUDA 12's nvJitLink is installed."""
    try:
        return bool(_older_library())
    except ToolchainError:
        return False


@cache
def _older_library() -> str:
    """The file of CUDA 12's nvJitLink, whose package stands beside that of CUDA 13. Raises ToolchainError."""
    try:
        found = distribution(OLDER_PACKAGE).locate_file("nvidia/nvjitlink/lib/libnvJitLink.so.12")
    except PackageNotFoundError:
        raise ToolchainError(f"CUDA 13 assembles for sm_75 and later; for older ones: {OLDER_HINT}") from None
    return str(found)


def _stop_kept() -> None:
    if _kept.process is not None:
        _kept.process.stop()
        _kept.process = None


def _leave_it_to_the_parent() -> None:
    """In a forked child: the pipes are the parent's, and its lock may be held by a thread that is not here."""
    global _kept
    if _kept.process is not None:
        _kept.process.forget()
    _kept = _Kept()


atexit.register(_stop_kept)
os.register_at_fork(after_in_child=_leave_it_to_the_parent)
