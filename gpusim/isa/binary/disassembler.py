"""NVIDIA's disassembler: a file or a stretch of code in, the text of each instruction out.

Mental model: nvdisasm takes a quarter of a second to build the tables of an architecture, whatever it is given. Who
asks for one kernel pays for that. From the second stretch of code for an architecture on it is kept, stopped, as it was
when the tables stood (:mod:`gpusim.io.stopped_program`), and a stretch takes a hundredth of a second. Where that cannot
be, it is started each time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

try:
    from cuda import pathfinder
except ImportError:  # a machine that only simulates trace files; whoever disassembles is told what to install
    pathfinder = None

from gpusim.errors import CompileError, ToolchainError
from gpusim.io.stopped_program import HEAP, StoppedProgram, limit_processor_time
from gpusim.io.whole_file import naming_file
from gpusim.isa.architectures import nearest
from gpusim.isa.binary.cubin import INSTRUCTION_BYTES
from gpusim.isa.binary.elf import with_architecture

#: Processor time that nvdisasm has, and the bytes of a cubin for which it has a second more: 13.0 took 0.1 s, and a
#: second for 1.6 MB. There are damaged cubins of a few kilobytes with which it does not end.
LISTING_SECONDS, _LISTING_RATE = 5, 100_000
#: Architectures from which kernels are built for, and disassembled as, the specific target ("SM90a").
ARCHITECTURE_SPECIFIC_FROM = 90
#: nvdisasm opens raw code twice: to look how long it is, and, its tables built, to read it.
_OPENS = 2
#: Architectures whose tables are kept, 70 MB each.
_MOST_STOPPED = 8

#: [guard, opcode, operands] of each instruction.
Rows = list[list[str]]

_lock = threading.Lock()
_asked: set[tuple[str, ...]] = set()
_cannot_stop: set[tuple[str, ...]] = set()
#: Those that stand stopped, the last used one last.
_stopped: dict[tuple[str, ...], StoppedProgram] = {}


def find_nvdisasm() -> str:
    """Path of nvdisasm (wheel, toolkit or PATH); raises ToolchainError with the pip command."""
    try:
        path = None if pathfinder is None else pathfinder.find_nvidia_binary_utility("nvdisasm")
    except Exception:  # the finder's own errors all mean "not there"
        path = None
    if path is None:
        raise ToolchainError("nvdisasm was not found: pip install nvidia-cuda-nvdisasm")
    return path


def listed(content: bytes, options: Sequence[str], damage: str) -> list[tuple[str, Rows]]:
    """(name, rows) of each function of a file that holds ``content``; ``damage`` is what a message calls it.

    Raises ToolchainError when nvdisasm is missing or refuses, CompileError when it comes to no end.
    """
    command = (find_nvdisasm(), "-json", *options)
    return _functions(_run_on_file(command, with_architecture(content, _read_as)), content, damage)


def raw_rows(code: bytes, architecture: int) -> Rows:
    """The rows of each 16-byte word of ``code``, a stretch of machine code for ``architecture``, e.g. 90. Targets
    count from its first byte.

    Raises ToolchainError when nvdisasm is missing or does not know the architecture, CompileError when its
    listing does not cover the code.
    """
    if not code:
        return []
    command = _raw_command(architecture)
    done = _run_on_stopped(command, code)
    if done is None:
        _asked.add(command)
        done = _run_on_file(command, code)
    rows = [row for _, rows in _functions(done, code, "code of no sense") for row in rows]
    if len(rows) * INSTRUCTION_BYTES != len(code):
        raise CompileError(f"nvdisasm listed {len(rows)} instructions, not all of them")
    return rows


def is_quick(architecture: int) -> bool:
    """Whether :func:`raw_rows` will not start nvdisasm for this stretch alone; to ask counts as asking for one."""
    command = _raw_command(architecture)
    known = command in _asked
    _asked.add(command)
    return known and command not in _cannot_stop


def _read_as(architecture: int) -> int:
    """The architecture that nvdisasm is told: it no longer knows sm_70 and sm_72, whose code sm_75 runs."""
    major, minor = nearest(divmod(architecture, 10)).compiled_as.capability
    return major * 10 + minor if architecture < major * 10 + minor else architecture


def _raw_command(architecture: int) -> tuple[str, ...]:
    architecture = _read_as(architecture)
    target = f"SM{architecture}{'a' if architecture >= ARCHITECTURE_SPECIFIC_FROM else ''}"
    return find_nvdisasm(), "-json", "-b", target


def _seconds(content: bytes) -> int:
    return LISTING_SECONDS + len(content) // _LISTING_RATE


def _run_on_stopped(command: tuple[str, ...], code: bytes) -> subprocess.CompletedProcess[bytes] | None:
    """What the one that stands stopped says; None the first time that it is asked for, and where none can be
    stopped."""
    with _lock:
        if command not in _asked or command in _cannot_stop:
            return None
        program = _stopped.pop(command, None)
        try:
            program = program or StoppedProgram(command, code, _OPENS, LISTING_SECONDS)
            done = program.run(code, _seconds(code))
        except OSError:  # CannotStopError, or the machine has no more processes
            _cannot_stop.add(command)
            if program is not None:
                program.close()
            return None
        _stopped[command] = program
        if len(_stopped) > _MOST_STOPPED:
            _stopped.pop(next(iter(_stopped))).close()
        return done


def _let_go() -> None:
    """In a forked process: who traces the stopped ones is the process that it was forked from."""
    global _lock
    _lock = threading.Lock()
    while _stopped:
        _stopped.popitem()[1].forget()
    _asked.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _run_on_file(command: tuple[str, ...], content: bytes) -> subprocess.CompletedProcess[bytes]:
    """Start it for a file that holds ``content``."""
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = Path(folder) / "kernel.cubin"
        with naming_file(path):
            path.write_bytes(content)
        try:
            return _run_for([*command, str(path)], _seconds(content))
        except OSError as error:
            raise ToolchainError(f"nvdisasm cannot be run ({error.strerror or error}): {command[0]}") from error


def _functions(done: subprocess.CompletedProcess[bytes], content: bytes, damage: str) -> list[tuple[str, Rows]]:
    """What nvdisasm has said of ``content``, read."""
    if done.returncode == -signal.SIGXCPU:
        seconds = _seconds(content)
        raise CompileError(f"{damage}: nvdisasm has come to no end of it within {seconds} s of processor time")
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise ToolchainError(f"nvdisasm failed: {reason[0]}")
    try:
        return [
            (
                entry["function-name"],
                [
                    [row.get("predicate", ""), row["opcode"], row.get("operands", "")]
                    for row in entry["sass-instructions"]
                ],
            )
            for entry in json.loads(done.stdout)[1]
        ]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ToolchainError(f"nvdisasm's listing could not be read ({error})") from error


def _run_for(command: list[str], seconds: int) -> subprocess.CompletedProcess[bytes]:
    """Run a program that the system ends after so much processor time."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C at the terminal is for whoever waits here
        env={**os.environ, "GLIBC_TUNABLES": HEAP},
    ) as process:
        with contextlib.suppress(OSError, AttributeError):  # it has ended already; no Linux
            limit_processor_time(process.pid, seconds)
        try:
            out, err = process.communicate()
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
