"""What a program, and those that it starts, know of the run that they are part of.

Mental model: ``gpusim run`` makes a folder, names it in the environment and puts the run's options there; every process
of the program that uses the device reads them, and appends what becomes of its launches to one file, a line at a time.
So the account is whole whichever way a process ends, and children are in it like their parents.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

#: Names the folder of the run.
VARIABLE = "GPUSIM_SESSION"
#: The device of a program that loads the library outside ``gpusim run``.
GPU_VARIABLE = "GPUSIM_GPU"
DEFAULT_GPU = "h200"
_OPTIONS, _ACCOUNT = "options.json", "account.jsonl"


@dataclass
class Options:
    """Those of ``gpusim run``, as its processes need them; ``record``: a folder, or nothing."""

    gpu: str = DEFAULT_GPU
    simulate: bool = False
    sample: bool = False
    cold: bool = False
    explain: bool = False
    checks: tuple[str, ...] = ()
    kernel: str = ""
    skip: int = 0
    count: int | None = None
    instruction_limit: int | None = None
    record: str = ""
    leak_check: bool = False
    pageable: bool = False
    devices: int = 1


class Session:
    """The folder of a run."""

    def __init__(self, folder: Path):
        self.folder = folder

    def write(self, options: Options) -> None:
        """Begin a run."""
        (self.folder / _OPTIONS).write_text(json.dumps(asdict(options)))
        (self.folder / _ACCOUNT).touch()

    def options(self) -> Options:
        """Those of the run."""
        given = json.loads((self.folder / _OPTIONS).read_text())
        known = {field.name for field in fields(Options)}
        return Options(**{name: value for name, value in given.items() if name in known})

    def enter(self) -> int:
        """The number of a process that begins to use the device: 0, 1, 2 and so on."""
        number = 0
        while True:
            try:
                os.close(os.open(self.folder / f"process-{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                return number
            except FileExistsError:
                number += 1

    def append(self, kind: str, record: dict[str, Any]) -> None:
        """Add a line to the account; whole, since it is one write to a file that is opened to append."""
        line = json.dumps({"kind": kind, **record}) + "\n"
        descriptor = os.open(self.folder / _ACCOUNT, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def account(self) -> Iterator[dict[str, Any]]:
        """The lines so far; one that a process could not finish is left out."""
        path = self.folder / _ACCOUNT
        if path.exists():
            for line in path.read_text(errors="replace").splitlines():
                try:
                    yield json.loads(line)
                except ValueError:
                    continue


def current() -> Session | None:
    """The run that this process is part of, by its environment."""
    folder = os.environ.get(VARIABLE, "")
    return Session(Path(folder)) if folder and Path(folder, _OPTIONS).is_file() else None
