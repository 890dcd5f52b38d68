"""The other end of :mod:`gpusim.watch.cell_worker`: one process of a commit and a toolchain, asked cell by cell.

Mental model: a worker is asked one task at a time and must answer within the time that a cell may take; one that is
late or dies is ended with all that it started, its cell has no value and says why, and the next cell gets a new worker.
What comes back is untrusted, for it ran the code of any commit: it is checked as a file from elsewhere is.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusim.errors import ExecutionError, WorkerAnswerError
from gpusim.io.records import as_record, read_json
from gpusim.silicon.row import SiliconRow
from gpusim.store.launch import SimulatedLaunch
from gpusim.watch.cell_worker import PROTOCOL

#: Of what a worker wrote to standard error, so much of the last line is told.
_MOST_LETTERS = 300
#: An answer larger than this is none: attributions of the largest kernels take some MB.
MOST_BYTES = 1 << 28
#: How long a worker may take to begin: it may have to compile the emulator first.
START_SECONDS = 600.0


@dataclass(frozen=True)
class Refusal:
    """Why a cell has no value: the class of the error (or ``raised``, ``died``, ``late``), what it said, its exit
    code."""

    kind: str
    message: str
    exit_code: int = 3


@dataclass(frozen=True)
class Answer:
    """What a worker says of a cell: ``launches`` simulated or ``rows`` measured, or ``refused``; ``figures`` hash ->
    the GPU's values; ``facts``: versions and hashes; ``unchecked``: why nobody knows whether the result is right."""

    id: int
    launches: tuple[SimulatedLaunch, ...] = ()
    rows: tuple[SiliconRow, ...] = ()
    refused: Refusal | None = None
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    unchecked: str = ""


class WorkerProcess:
    """A worker in ``folder``, by ``python``; not started until it is asked."""

    def __init__(
        self,
        folder: Path,
        python: str = "",
        environment: Mapping[str, str] | None = None,
        python_path: Sequence[str] = (),
    ) -> None:
        self._folder, self._python = folder, python or sys.executable
        variables = {**os.environ, **(environment or {})}
        paths = [str(folder / part) for part in python_path]
        if "PYTHONPATH" in variables:
            paths.append(variables["PYTHONPATH"])
        self._environment = variables | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})
        self._process: subprocess.Popen[bytes] | None = None
        self._left = b""
        self._facts: dict[str, str] = {}

    def facts(self) -> dict[str, str]:
        """What the worker said of itself as it began: versions and hashes that decide what it finds. Raises
        ExecutionError."""
        self._start()
        return self._facts

    def ask(self, task: Mapping[str, Any], timeout_s: float) -> Answer:
        """The answer to ``task``; one that never comes is a refusal (``died``, ``late``). Raises ExecutionError where
        no worker can be started, WorkerAnswerError for an answer that is none."""
        self._start()
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(dict(task)).encode() + b"\n")
            self._process.stdin.flush()
            line = self._read_line(timeout_s)
        except TimeoutError:
            self.stop()
            return Answer(task["id"], refused=Refusal("late", f"no value after {timeout_s:g} s"))
        except (BrokenPipeError, EOFError):
            return Answer(task["id"], refused=Refusal("died", f"its process ended: {self._reason()}"))
        try:
            return as_record(Answer, read_json(line), "a worker's answer", WorkerAnswerError)
        except ValueError as error:
            raise WorkerAnswerError(f"a worker's answer is not JSON: {error}") from None

    def kill(self) -> None:
        """End it at once, from any thread; whoever waits for its answer finds it dead."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End it and what it has started."""
        process, self._process, self._left = self._process, None, b""
        if process is None:
            return
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        if self._process is not None:
            return
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [self._python, "-m", "gpusim.watch.cell_worker"],
                cwd=self._folder, env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ExecutionError(
                f"{self._python}: cannot be run ({error.strerror}); see [toolchains] of the plan"
            ) from None
        try:
            hello = read_json(self._read_line(START_SECONDS))
        except (EOFError, TimeoutError, ValueError):
            reason = self._reason()
            raise ExecutionError(
                f"{self._python}: its worker did not begin: {reason}; is gpusim installed there?"
            ) from None
        if not isinstance(hello, dict) or hello.get("protocol") != PROTOCOL:
            self.stop()
            raise ExecutionError(
                f"{self._python}: its gpusim speaks another protocol; install gpusim of the same version there"
            )
        self._facts = as_record(dict[str, str], hello.get("facts"), "a worker's first line", WorkerAnswerError)

    def _read_line(self, timeout_s: float) -> bytes:
        """The next line of the worker. Raises TimeoutError, EOFError."""
        assert self._process is not None and self._process.stdout is not None
        descriptor, until = self._process.stdout.fileno(), time.monotonic() + timeout_s
        parts = [self._left]
        while b"\n" not in parts[-1]:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError
            part = os.read(descriptor, 1 << 20)
            if not part:
                raise EOFError
            parts.append(part)
            if sum(map(len, parts)) > MOST_BYTES:
                raise WorkerAnswerError(f"a worker's answer is larger than {MOST_BYTES} bytes")
        line, _, self._left = b"".join(parts).partition(b"\n")
        return line

    def _reason(self) -> str:
        """Why a worker that has ended did: its signal or exit code, and its last words. It is gone afterwards."""
        process = self._process
        assert process is not None
        code = process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._errors.seek(0)
        said = self._errors.read()[-4096:].decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(said) if line.strip()), "")
        self.stop()
        return f"{how}; {last[-_MOST_LETTERS:]}" if last else how
