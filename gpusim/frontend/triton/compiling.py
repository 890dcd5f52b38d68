"""Triton's own compilation, for a GPU that is not there.

Mental model: Triton compiles at a launch for the device of its active driver. Here a stand-in takes that driver's
place, which knows no more than an architecture, and Triton's ``warmup`` launch does the rest: it binds and specialises
the arguments, compiles or finds the code in its cache, and does not run it. Each architecture is a device of its own,
so that Triton keeps the code of several side by side.
"""

from __future__ import annotations

import atexit
import functools
import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from gpusim.errors import CompileError, GpusimError, ToolchainError, UsageError
from gpusim.frontend.triton.diagnostics import Diagnostics, diagnostics
from gpusim.frontend.triton.installed import load
from gpusim.io.cache_folder import cache_folder
from gpusim.isa.architectures import nearest

_lock = threading.RLock()
#: Triton's own announcement of a default to come, which users of a front end can do nothing about.
_ANNOUNCEMENT = "TRITON_DEFAULT_FP_FUSION"
_MOST_LETTERS = 400


class _Target:
    """The driver of a device of which nothing but its architecture is known."""

    def __init__(self, architecture: int) -> None:
        self._architecture = architecture

    def get_current_device(self) -> tuple[str, int]:
        """What Triton keeps compiled code by."""
        return "gpusim", self._architecture

    def get_current_stream(self, device: object) -> int:
        """The default stream."""
        return 0

    def get_current_target(self) -> Any:
        """What to compile for."""
        return load("triton.backends.compiler").GPUTarget("cuda", self._architecture, 32)


@contextmanager
def compiling_for(capability: tuple[int, int]) -> Iterator[None]:
    """While it is entered, Triton compiles for ``capability`` and keeps what it compiles beside gpusim's own caches,
    unless ``TRITON_CACHE_DIR`` names a place."""
    row = nearest(capability)
    config, knobs = load("triton.runtime.driver").driver, load("triton.knobs")
    with _lock, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_ANNOUNCEMENT)
        before, config._active = config._active, _Target(10 * row.capability[0] + row.capability[1])
        try:
            with knobs.cache.scope():
                if "TRITON_CACHE_DIR" not in os.environ:
                    folder = cache_folder()
                    knobs.cache.dir = _writable(knobs.cache.dir if folder is None else str(folder / "triton"))
                yield
        finally:
            config._active = before


@functools.cache
def _writable(folder: str) -> str:
    """``folder``, or where it cannot be written (a home that is read-only, a disk that is full) one that goes with this
    process: Triton compiles by way of files."""
    try:
        os.makedirs(folder, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    own, process = tempfile.mkdtemp(prefix="gpusim-triton-"), os.getpid()
    atexit.register(lambda: os.getpid() == process and shutil.rmtree(own, ignore_errors=True))
    return own


def compile_launch(function: Any, args: tuple, given: dict[str, Any], capability: tuple[int, int]) -> Any:
    """Triton's ``CompiledKernel`` of a launch of the ``triton.jit`` function with ``args`` and keywords ``given``.
    Raises UsageError for arguments that it does not take, CompileError for code, ToolchainError for a tool that does
    not run."""
    name, target = function.__name__, nearest(capability).name
    errors = load("triton.runtime.errors")
    heard: Diagnostics | None = None
    printed = io.StringIO()
    try:
        with compiling_for(capability), redirect_stdout(printed), diagnostics() as heard:
            compiled = function.run(*args, grid=None, warmup=True, **given)
    except GpusimError:
        raise
    except (TypeError, KeyError) as error:
        said = str(error.args[0] if error.args else error)
        raise UsageError(f"{name}: {_one_line(said.replace('dynamic_func()', name))}") from error
    except (FileNotFoundError, subprocess.SubprocessError) as error:
        raise ToolchainError(f"compiling {name}: {_one_line(str(error))}") from error
    except OSError as error:
        if error.errno is None:  # Python finds no source code of the function
            raise CompileError(f"{name} does not compile for {target}: {_told(error)}") from error
        where = f"{error.filename}: " if error.filename else ""
        raise ToolchainError(
            f"compiling {name}: {where}{error.strerror}; Triton compiles by way of files: TRITON_CACHE_DIR names another folder"
        ) from error
    except errors.PTXASError as error:
        printed = _noted(error, printed)  # all of the PTX, above one line that says what is wrong with it
        raise CompileError(f"{name} does not compile for {target}: {_one_line(error.error_message)}") from error
    except Exception as error:  # Triton has classes of its own, and lets those of its passes through
        reason = heard.reason() if heard is not None else ""
        if heard is not None and heard.held:  # the module that was refused, for who asks Python for more
            error.add_note(heard.held.decode(errors="replace"))
            printed = _noted(error, printed)
        raise CompileError(f"{name} does not compile for {target}: {_one_line(reason) or _told(error)}") from error
    finally:  # what the kernel prints as it is compiled (tl.static_print)
        sys.stdout.write(printed.getvalue())
    if compiled is None:
        raise CompileError(f"{name} does not compile for {target}: a hook of Triton's jit cache refused it")
    return compiled


def _noted(error: Exception, printed: io.StringIO) -> io.StringIO:
    """Keep with ``error`` what Triton has printed of the code that it refused; what is left to print."""
    error.add_note(printed.getvalue())
    return io.StringIO()


def _told(error: Exception) -> str:
    """What a compiler's error says in one line, first of all why: Triton's own has the source above its reason."""
    reason = getattr(error, "error_message", None)
    node, source = getattr(error, "node", None), getattr(error, "src", None)
    cause = error.__cause__
    said = (
        reason or (str(cause) if cause is not None and node is not None else "") or str(error) or type(error).__name__
    )
    if node is not None and source is not None and hasattr(node, "lineno"):
        lines = source.splitlines()
        line = lines[node.lineno - 1].strip() if 0 < node.lineno <= len(lines) else ""
        return f"{_one_line(said)} (in `{line}`)"
    return _one_line(said)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MOST_LETTERS]
