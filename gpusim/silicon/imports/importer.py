"""What reads one format of measurements: the interface that gpusim's own importers and those of other packages share.

Mental model: an importer is a module, or any object, with three names. ``description`` says in a few words what files
it reads; ``recognises(path, head)`` looks at a file's name and first bytes (in UTF-8 where a byte order mark says
UTF-16); ``read(path)`` turns the file into rows. It is declared as an entry point of the group ``gpusim.importers``,
and bears that entry point's name::

    [project.entry-points."gpusim.importers"]
    ours = "our_package.gpusim_importer"
"""

from __future__ import annotations

import codecs
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


def in_utf8(data: bytes) -> bytes:
    """A file's bytes, or its first ones, without a byte order mark; UTF-16 that has one (PowerShell's ``>`` writes it)
    as UTF-8."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        whole = data[: len(data) // 2 * 2]  # the first bytes may end within a character
        return whole.decode("utf-16", "replace").encode("utf-8", "replace")
    return data.removeprefix(codecs.BOM_UTF8)


def read_text(path: Path) -> str:
    """The file's text, UTF-8 with or without a byte order mark, or UTF-16 with one. Raises MeasurementFormatError for
    anything else."""
    try:
        return in_utf8(path.read_bytes()).decode()
    except UnicodeDecodeError as error:
        raise MeasurementFormatError(
            f"{path}: no text (byte {error.start}), and no .ncu-rep: known are rows of gpusim measure, Nsight Compute's"
            f" --csv and .ncu-rep, nvbench's JSON, Kernel Tuner's cache and T4 files, cutlass_profiler's CSV, and CSV with a column 'kernel'"
        ) from None


def head_text(head: bytes) -> str:
    """The whole characters of a file's first bytes, what is no UTF-8 replaced."""
    return head.decode("utf-8-sig", "replace")
