"""A program that builds its tables before it opens its input: started once, and cloned for each input from there.

Mental model: the program runs under ptrace and is stopped as it is about to open its input for the last time. For each
input the stopped process is made to call ``clone``; the clone, our own child, opens the input, writes what it has to
say and ends, and the original stands where it stood. nvdisasm takes a quarter of a second to come there and some
milliseconds from there on. Input and output are files in memory alone. Where ptrace is not to be had (not Linux,
another processor, a container that forbids it, a debugger that traces this process), :class:`CannotStopError` is
raised, and the caller starts the program as ever.

Constants and stops: ptrace(2), clone(2); the registers: ``user_regs_struct`` of ``sys/user.h``.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

_SEIZE, _CONTINUE, _TO_NEXT_CALL, _GET_REGISTERS, _SET_REGISTERS, _EVENT_MESSAGE = 0x4206, 7, 24, 12, 13, 0x4201
#: Mark stops at system calls; stop at clone and exec; end with the thread that traces.
_OPTIONS = 0x1 | 0x8 | 0x10 | 0x100000
_AT_CALL, _EVENT_CLONE = signal.SIGTRAP | 0x80, 3
_ANY_CHILD = 0x40000000  # __WALL
_OPENAT, _CLONE, _CLONE_PARENT = 257, 56, 0x8000
_WORD = 1 << 64
#: What rax holds when a call begins (-ENOSYS), and what orig_rax says where none is to be begun again.
_BEGINNING, _NO_CALL = _WORD - 38, _WORD - 1
_SYSCALL_BYTES = 2
#: The number under which the program finds its input open.
_INPUT = 3
_MOST_CALLS = 20_000
#: Of the environment's GLIBC_TUNABLES: the heap in large pages and large steps: a third of the system calls and a
#: fourteenth of the page faults.
HEAP = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864"


class CannotStopError(OSError):
    """The program cannot be stopped, or cloned, here."""


_NAMES = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs",
    "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
)  # fmt: skip


class _Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in _NAMES]


class StoppedProgram:
    """``command``, to whose words the path of its input is added, as it is about to open that for the time number
    ``opens``; it has ``seconds`` of processor time to come there, with ``first`` as its input. Raises
    CannotStopError."""

    def __init__(self, command: Sequence[str], first: bytes, opens: int, seconds: int):
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise CannotStopError("not Linux on x86-64")
        # All of ptrace must come from one thread.
        self._thread = ThreadPoolExecutor(1, "ptrace")
        self._files = [os.memfd_create(name) for name in ("input", "output", "errors")]
        self._input, self._output, self._errors = self._files
        self._pid = 0
        try:
            self._thread.submit(self._begin, tuple(command), first, opens, seconds).result()
        except BaseException:
            self.close()
            raise

    def run(self, content: bytes, seconds: int) -> subprocess.CompletedProcess[bytes]:
        """What the program does with ``content``, in so much processor time. Raises CannotStopError once it is not
        there any more."""
        return self._thread.submit(self._clone, content, seconds).result()

    def close(self) -> None:
        """End it."""
        self._thread.submit(self._end).result()
        self._thread.shutdown()

    def _end(self) -> None:
        if self._pid:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, _ANY_CHILD)
        self._pid = 0
        self.forget()

    def forget(self) -> None:
        """In a forked process, whose it is not: let go of its files."""
        while self._files:
            os.close(self._files.pop())

    def _begin(self, command: tuple[str, ...], first: bytes, opens: int, seconds: int) -> None:
        path = f"/proc/self/fd/{_INPUT}"
        self._fill(first)
        waits, go = os.pipe()
        try:
            # The shell waits until it is traced.
            self._pid = pid = os.posix_spawn(
                "/bin/sh",
                ("sh", "-c", 'read -r go && exec "$@"', "sh", *command, path),
                {**os.environ, "GLIBC_TUNABLES": HEAP},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, file, number)
                    for number, file in enumerate((waits, self._output, self._errors, self._input))
                ],
                setsid=True,  # a Ctrl-C at the terminal is for whoever waits here
            )
            self._ptrace(_SEIZE, pid, _OPTIONS)
            limit_processor_time(pid, seconds)
            os.write(go, b"\n")
        finally:
            os.close(waits)
            os.close(go)
        status = self._wait(pid)
        for _ in range(_MOST_CALLS):
            status = self._resume(pid, _TO_NEXT_CALL, status)
            if os.WSTOPSIG(status) == _AT_CALL and self._opens(pid, path):
                opens -= 1
                if opens == 0:
                    self._there = self._registers(pid)
                    return
        raise CannotStopError(f"{command[0]} does not open its input so often")

    def _opens(self, pid: int, path: str) -> bool:
        """Whether the process begins to open ``path``."""
        registers = self._registers(pid)
        if registers.rax != _BEGINNING or registers.orig_rax != _OPENAT:
            return False
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            return os.pread(memory, len(path) + 1, registers.rsi) == path.encode() + b"\0"
        finally:
            os.close(memory)

    def _clone(self, content: bytes, seconds: int) -> subprocess.CompletedProcess[bytes]:
        if not self._files:
            raise CannotStopError("it has ended")
        self._fill(content)
        pid = self._pid
        call = _Registers.from_buffer_copy(self._there)
        call.orig_rax, call.rdi = _CLONE, _CLONE_PARENT
        call.rsi = call.rdx = call.r10 = call.r8 = 0
        self._set_registers(pid, call)
        status = self._resume(pid, _TO_NEXT_CALL, 0)
        if status >> 8 != signal.SIGTRAP | _EVENT_CLONE << 8:
            raise CannotStopError("it could not be cloned")
        child = ctypes.c_ulong()
        self._ptrace(_EVENT_MESSAGE, pid, ctypes.addressof(child))
        clone = child.value
        self._wait(clone)
        # Both begin once more the call that the first was stopped at; the first is stopped there again.
        again = _Registers.from_buffer_copy(self._there)
        again.rax, again.orig_rax, again.rip = _OPENAT, _NO_CALL, again.rip - _SYSCALL_BYTES
        self._resume(pid, _TO_NEXT_CALL, 0)
        self._set_registers(pid, again)
        self._resume(pid, _TO_NEXT_CALL, 0)
        self._set_registers(clone, again)
        limit_processor_time(clone, seconds)
        status = self._resume(clone, _CONTINUE, 0, to_its_end=True)
        code = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess((), code, _content(self._output), _content(self._errors))

    def _fill(self, content: bytes) -> None:
        """Give it ``content``, and room for what it says: the place in a file is one for all who share it."""
        for file in self._files:
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
        written = 0
        while written < len(content):
            written += os.pwrite(self._input, content[written:], written)

    def _resume(self, pid: int, how: int, status: int, to_its_end: bool = False) -> int:
        """Let the process go on, with the signal that it was stopped for, to the next stop, or its end; gives its
        status there."""
        while True:
            stopped_for = os.WSTOPSIG(status) if os.WIFSTOPPED(status) and status >> 16 == 0 else 0
            self._ptrace(how, pid, 0 if stopped_for == _AT_CALL else stopped_for)
            status = self._wait(pid)
            if not os.WIFSTOPPED(status):
                if to_its_end:
                    return status
                raise CannotStopError("it ended before")
            if not to_its_end:
                return status

    @staticmethod
    def _wait(pid: int) -> int:
        try:
            return os.waitpid(pid, _ANY_CHILD)[1]
        except ChildProcessError as error:
            raise CannotStopError("somebody else waits for it") from error

    def _registers(self, pid: int) -> _Registers:
        registers = _Registers()
        self._ptrace(_GET_REGISTERS, pid, ctypes.addressof(registers))
        return registers

    def _set_registers(self, pid: int, registers: _Registers) -> None:
        self._ptrace(_SET_REGISTERS, pid, ctypes.addressof(registers))

    @staticmethod
    def _ptrace(request: int, pid: int, data: int) -> None:
        if _libc_ptrace()(request, pid, None, data) == -1:
            raise CannotStopError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@functools.cache
def _libc_ptrace() -> Callable[[int, int, int | None, int], int]:
    function = ctypes.CDLL(None, use_errno=True).ptrace
    function.restype = ctypes.c_long
    function.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    return function


def limit_processor_time(pid: int, seconds: int) -> None:
    """Have the system end a process after so much processor time, without a core dump."""
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)
