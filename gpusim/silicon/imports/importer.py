"""What reads one format of measurements: the interface that gpusim's own importers and those of other packages share.

Mental model: an importer is a module, or any object, with three names. ``description`` says in a few words what files
it reads; ``recognises(path, head)`` looks at a file's name and first bytes; ``read(path)`` turns the file into rows. It
is declared as an entry point of the group ``gpusim.importers``, and bears that entry point's name::

    [project.entry-points."gpusim.importers"]
    ours = "our_package.gpusim_importer"
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gpusim.errors import MeasurementFormatError
from gpusim.silicon.row import SiliconRow


class Importer(Protocol):
    """Reads one format. ``description``: which, for a person, such as ``nvbench's --json``."""

    description: str

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether the file at ``path``, which begins with ``head`` (its first 64 KiB), is of this format for
        certain."""
        ...

    def read(self, path: Path) -> list[SiliconRow]:
        """Its rows. Raises MeasurementFormatError, beginning with the path, for a damaged file; OSError for one that
        cannot be read."""
        ...


def read_text(path: Path) -> str:
    """The file's text, UTF-8 with or without a byte order mark. Raises MeasurementFormatError for anything else."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MeasurementFormatError(
            f"{path}: no text (byte {error.start}), and no .ncu-rep: known are rows of gpusim measure, Nsight Compute's"
            f" --csv and .ncu-rep, nvbench's JSON, Kernel Tuner's cache and T4 files, cutlass_profiler's CSV, and CSV with a column 'kernel'"
        ) from None


def head_text(head: bytes) -> str:
    """The whole characters of a file's first bytes, what is no UTF-8 replaced."""
    return head.decode("utf-8-sig", "replace")
