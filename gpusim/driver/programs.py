"""Runs a program that is not Python, with the emulated device's libraries in front of the real ones.

Mental model: the program is a child process in an environment that leads it, and what it starts, to the libraries
(:mod:`gpusim.driver.library_files`); the device lives in each process that uses it. This process waits, passes signals
on, and then reads the account of the launches (:mod:`gpusim.driver.session`).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusim.driver.columns import same_columns
from gpusim.driver.library_folder import RUNTIMES
from gpusim.driver.session import VARIABLE, Session
from gpusim.errors import UsageError

#: Environment variables that name the folder of the libraries, before what they name already.
PATHS = ("LD_LIBRARY_PATH",)
#: Names the libraries themselves, before what it names already: a program or a library of it that was linked with a
#: path of its own (DT_RPATH, as the wheels of PyTorch are) looks there first, but not for what is loaded.
PRELOAD = "LD_PRELOAD"
#: Those that are set to it: where Triton looks for the driver.
FOLDERS = ("TRITON_LIBCUDA_PATH",)
#: Chooses among devices (:mod:`gpusim.driver.visible_devices`).
CHOICE = "CUDA_VISIBLE_DEVICES"
_WAITED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
_PYTHON_SUFFIXES = (".py", ".pyw", ".pyc", ".pyz")
_SEPARATOR = re.compile(r"[\s:]")
_SHEBANG, _ELF = b"#!", b"\x7fELF"


@dataclass
class Account:
    """What the processes of a program have told. ``rows``: one for launches that follow each other and do not differ;
    ``begun``: launches that were under way, by process; ``notes``: why launches failed or were refused."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    leaks: list[dict[str, Any]] = field(default_factory=list)
    sentences: list[tuple[int, str]] = field(default_factory=list)
    begun: dict[int, dict[str, Any]] = field(default_factory=dict)
    failed: int = 0
    processes: int = 0


def is_executable(program: str) -> bool:
    """Whether ``program`` is to be started as it is: not a script of Python's. A name without a slash that is no file
    here is looked for on PATH."""
    path = find_program(program)
    if path is None or path.suffix in _PYTHON_SUFFIXES:
        return False
    if not path.is_file() or not os.access(path, os.R_OK):
        return False
    with path.open("rb") as stream:
        start = stream.read(256)
    if start.startswith(_SHEBANG):
        return b"python" not in start.splitlines()[0]
    return start.startswith(_ELF)


def find_program(program: str) -> Path | None:
    """The file that ``program`` names, None where there is none."""
    if Path(program).exists():
        return Path(program)
    found = shutil.which(program) if os.sep not in program else None
    return Path(found) if found else None


def environment_for(
    folder: Path, session: Session | None, base: Mapping[str, str], keeps_choice: bool = False
) -> dict[str, str]:
    """``base``, and what leads a program to the libraries in ``folder`` and to its run. ``keeps_choice``:
    CUDA_VISIBLE_DEVICES chooses among the devices of the run; else it is taken for this machine's, which these are not,
    and is left out."""
    found = dict(base)
    for name in PATHS:
        found[name] = os.pathsep.join(filter(None, (str(folder), base.get(name, ""))))
    if not _SEPARATOR.search(str(folder)):  # the loader would take the path for several
        runtimes = (str(folder / name) for name in RUNTIMES)
        found[PRELOAD] = " ".join(filter(None, (*runtimes, base.get(PRELOAD, ""))))
    found.update(dict.fromkeys(FOLDERS, str(folder)))
    if not keeps_choice:
        found.pop(CHOICE, None)
    if session is not None:
        found[VARIABLE] = str(session.folder)
    return found


def run_executable(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run ``program`` to its end; its exit code, 128 and the number of the signal that it died of. A signal that was
    sent to this process alone is passed on; one of the terminal has reached the program too. Raises UsageError for a
    program that cannot be started."""
    path = find_program(program)
    assert path is not None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    try:
        try:
            pid = os.posix_spawn(
                str(path if os.sep in str(path) else Path(".") / path),
                [program, *arguments],
                dict(environment),
                setsigmask=before,
            )
        except OSError as error:
            raise UsageError(f"{program} cannot be started: {error.strerror}") from None
        while True:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            information = signal.sigwaitinfo(_WAITED)
            if information.si_signo != signal.SIGCHLD and information.si_pid:  # a terminal's has no sender
                os.kill(pid, information.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def read_account(session: Session) -> Account:
    """What the program's processes have told."""
    account = Account()
    last_code = ""
    hidden = {"kind", "pid", "code"}
    for line in session.account():
        kind, process = line["kind"], line.get("process", 0)
        account.processes = max(account.processes, process + 1)
        if kind == "begin":
            account.begun[process] = line
        elif kind == "failed":
            account.begun.pop(process, None)
            account.failed += 1
        elif kind == "launch":
            account.begun.pop(process, None)
            row = {name: value for name, value in line.items() if name not in hidden}
            last = account.rows[-1] if account.rows else None
            if last is not None and last_code == line["code"] and _alike(last, row):
                last["launches"] += 1
                last["host_ms"] = round(last["host_ms"] + row["host_ms"], 3)
            else:
                account.rows.append(row)
            last_code = line["code"]
        elif kind == "finding":
            account.findings.append(line["finding"])
        elif kind == "leak":
            account.leaks.append(line["row"])
        elif kind == "why":
            account.sentences.append((line["launch"], line["sentence"]))
    if account.processes < 2:
        for row in account.rows:
            del row["process"]
    account.rows = same_columns(account.rows)
    return account


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether nothing that is shown differs."""
    counted = ("launch", "launches", "host_ms")
    return all(one.get(name) == other.get(name) for name in {*one, *other} if name not in counted)
