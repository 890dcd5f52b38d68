"""``gpusim ...`` as a process of its own that need not import everything first.

Mental model: one process, started with the first command, imports what commands import, has Numba set itself up, and
then waits. Each command is a fork of it, in a session of its own, with arguments, folder, environment and standard
streams of its own, so what a command does to its process (signals, threads, the driver that it installs, its exit code)
it does to nothing else. Where the start of the process itself is the question (``python -m gpusim.cli``, settings that
Numba reads as it is imported), a test starts a real one. One command runs at a time.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from io import FileIO
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What `gpusim run` of a Numba program has imported by its first launch, less what opens a device or starts threads;
#: what Numba looks up for its first kernel, whichever it is; the machine code of emulator and engine. The garbage
#: collector need not look at any of that again.
_SERVER = """
import faulthandler, gc, json, os, resource, signal, socket, sys
import numba.cuda.compiler, numba.cuda.np.arraymath, numba.cuda.fp16
import gpusim.cli, gpusim.capturing, gpusim.driver.ledger, gpusim.driver.run
import gpusim.commands.run, gpusim.commands.running, gpusim.commands.running_programs, gpusim.commands.simulating
import numba.cuda, numpy
numba.cuda.compile(lambda x: None, numba.void(numba.float32[::1]), cc=(9, 0))
trace = gpusim.capture(numba.cuda.jit(lambda x: None), 1, 32, (numpy.zeros(1, numpy.float32),))
gpusim.simulate(trace, threads=1)
gc.collect()
gc.freeze()
line = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, streams, _, _ = socket.recv_fds(line, 1 << 20, 3)
    if not message:
        sys.exit()
    child = os.fork()
    if not child:
        break
    for number in streams:
        os.close(number)
    line.send(str(child).encode())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    line.send(json.dumps([code, sum(each.ru_utime + each.ru_stime for each in used)]).encode())
line.close()
asked = json.loads(message)
os.setsid()
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below a shell that runs the tests behind it
for number, stream in enumerate(streams):
    os.dup2(stream, number)
    os.close(stream)
sys.stdin = open(0, closefd=False)
faulthandler.register(signal.SIGUSR2, file=2)
os.chdir(asked["cwd"])
os.environ.clear()
os.environ.update(asked["environment"])
sys.path[0] = asked["cwd"]  # as with python -m
sys.argv = ["gpusim", *asked["arguments"]]
gpusim.io.progress.SILENT_SECONDS = asked["silent_seconds"] or gpusim.io.progress.SILENT_SECONDS
gpusim.cli.main()
"""
#: As subprocess.run(timeout=600) would have it.
SECONDS = 600
#: Processor time that all commands have taken, and their server.
spent_s = 0.0


class Command:
    """A command that runs. Its streams are read without reading ahead. ``silent_seconds``: so soon it speaks of its
    progress."""

    def __init__(self, arguments: Sequence[object], cwd: Path, silent_seconds: float | None = None):
        self.args = [str(argument) for argument in arguments]
        self._line, self._ended = _server(), False
        (out, theirs_out), (err, theirs_err) = os.pipe(), os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        asked = {
            "arguments": self.args,
            "cwd": str(cwd),
            "environment": dict(os.environ),
            "silent_seconds": silent_seconds,
        }
        socket.send_fds(self._line, [json.dumps(asked).encode()], [nothing, theirs_out, theirs_err])
        for number in (nothing, theirs_out, theirs_err):
            os.close(number)
        self._streams = open(out, "rb", 0), open(err, "rb", 0)  # noqa: SIM115
        self.pid = int(self._line.recv(64))

    def out_line(self) -> str:
        """The next line of its standard output; empty at the end."""
        return self._streams[0].readline().decode()

    def err_line(self) -> str:
        """The next line of its standard error; empty at the end."""
        return self._streams[1].readline().decode()

    def stop_reading(self) -> None:
        """Read no more of its standard output, as ``| true`` does not."""
        self._streams[0].close()

    def kill(self) -> None:
        """End it, and all that it has started, if it has not ended."""
        if not self._ended:
            os.killpg(self.pid, signal.SIGKILL)
            self._end()

    def _end(self) -> int:
        global spent_s
        (code, spent_s), self._ended = json.loads(self._line.recv(256)), True
        return code

    def _where(self, said: Mapping[FileIO, bytes]) -> str:
        """What it has said, and where its threads are."""
        out, err = self._streams
        text = f"{self._ended=}, said {said[out]!r} and {said[err]!r}"
        if self._ended or err.closed:
            return text
        os.kill(self.pid, signal.SIGUSR2)
        while select.select([err], [], [], 5.0)[0] and (more := err.read(1 << 16)):
            text += "\n" + more.decode(errors="replace")
        return text

    def finish(self, timeout: float = SECONDS) -> subprocess.CompletedProcess[str]:
        """Its exit code, minus the signal's number if one ended it, and what it has said since. Raises TimeoutError
        after ``timeout`` seconds in which it says nothing, and kills it."""
        code, said = 0, {stream: b"" for stream in self._streams}
        reading: list = [*(stream for stream in self._streams if not stream.closed), self._line]
        while reading:
            ready = select.select(reading, [], [], timeout)[0]
            if not ready:
                where = self._where(said)
                self.kill()
                raise TimeoutError(f"gpusim {' '.join(self.args)} has said nothing in {timeout} s; {where}")
            for each in ready:
                if each is self._line:
                    code = self._end()
                    reading.remove(each)
                elif more := each.read(1 << 16):
                    said[each] += more
                else:
                    reading.remove(each)
        for stream in self._streams:
            stream.close()
        return subprocess.CompletedProcess(self.args, code, *(text.decode() for text in said.values()))


def gpusim(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """``gpusim`` with ``arguments`` in ``cwd``, to its end: its exit code and what it said."""
    return Command(arguments, cwd).finish()


@cache
def _server() -> socket.socket:
    """The line to it; it ends when this process does, which closes the line."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(theirs.fileno())], env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
    )  # fmt: skip
    theirs.close()
    return ours
