"""``gpusim ...`` as a process of its own that need not import everything first.

Mental model: one process, started with the first command, imports what commands import and then waits. Each command is a
fork of it, with arguments, folder, environment and standard streams of its own, so what a command does to its process
(signals, threads, the driver that it installs, its exit code) it does to nothing else. Where the start of the process
itself is the question (``python -m gpusim.cli``, settings that Numba reads as it is imported), a test starts a real one.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What `gpusim run` of a Numba program has imported by its first launch, less what opens a device or starts threads.
_SERVER = """
import json, os, sys
import numba.cuda, numba.cuda.compiler, numba.cuda.np.arraymath, numba.cuda.fp16
import gpusim.cli, gpusim.capturing, gpusim.driver.ledger, gpusim.driver.run
import gpusim.commands.run, gpusim.commands.running, gpusim.commands.running_programs, gpusim.commands.simulating
answers = os.fdopen(os.dup(1), "w", buffering=1)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child:
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\\n")
        continue
    answers.close()
    for number, file, how in ((0, os.devnull, os.O_RDONLY), (1, asked["out"], os.O_WRONLY), (2, asked["err"], os.O_WRONLY)):
        os.dup2(os.open(file, how), number)
    sys.stdin = open(0, closefd=False)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[0] = asked["cwd"]  # as with python -m
    sys.argv = ["gpusim", *asked["arguments"]]
    break
else:
    sys.exit()
gpusim.cli.main()
"""
#: As subprocess.run(timeout=600) would have it.
SECONDS = 600


def gpusim(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """``gpusim`` with ``arguments`` in ``cwd``: its exit code (minus the signal's number, if one ended it) and what it said."""
    words = [str(argument) for argument in arguments]
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        asked = {"arguments": words, "cwd": str(cwd), "environment": dict(os.environ), "out": out.name, "err": err.name}
        server.stdin.write(json.dumps(asked) + "\n")
        if not select.select([server.stdout], [], [], SECONDS)[0]:
            server.kill()
            raise TimeoutError(f"gpusim {' '.join(words)} has not ended in {SECONDS} s")
        return subprocess.CompletedProcess(words, int(server.stdout.readline()), out.read(), err.read())


@cache
def _server() -> subprocess.Popen[str]:
    """It ends with the tests' process, at the end of its stdin."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", _SERVER], env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
