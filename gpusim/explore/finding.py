"""A finding: the worst case, the smallest case and the region that they stand for, as a file that runs again.

Mental model: a divergence is kept as three shapes of one fact. The file says all that is needed to rerun it: property
and its options, GPU with its settings, kernel, shapes, and what was measured, to the last digit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from gpusim import __version__
from gpusim.errors import FindingFileError
from gpusim.io.document import read_document
from gpusim.io.records import Finite, Scalar, as_record
from gpusim.io.whole_file import write_whole

FINDING_VERSION = 1
MOST_BYTES = 4 << 20
#: What findings of the first releases do not have.
_MAY_LACK = ("behaviour",)


@dataclass(frozen=True)
class Witness:
    """A shape and what was measured on it."""

    shape: Mapping[str, Scalar]
    divergence: Finite
    detail: str


@dataclass(frozen=True)
class Finding:
    """``property`` with its ``options`` (as the command line takes them), ``gpu`` with ``settings``; ``worst`` and
    ``minimal``; the region's ``rule`` with the counts behind it; ``explains``: runs of the search that lie in it;
    ``behaviour``: what it has in common with the search's other divergences (:mod:`gpusim.explore.shared_behaviour`),
    or empty."""

    property: str
    options: Mapping[str, Scalar]
    gpu: str
    settings: tuple[str, ...]
    kernel: str
    worst: Witness
    minimal: Witness
    rule: str
    inside: int
    misses: int
    escapes: int
    witnesses_inside: tuple[Mapping[str, Scalar], ...] = ()
    witnesses_outside: tuple[Mapping[str, Scalar], ...] = ()
    explains: int = 1
    behaviour: str = ""
    gpusim_version: str = field(default=__version__)

    @property
    def name(self) -> str:
        """A file name that is the same for the same minimal case: ``bounds-saxpy-1a2b3c4d``."""
        what = [self.property, dict(self.options), self.gpu, self.settings, self.kernel, dict(self.minimal.shape)]
        key = json.dumps(what)
        kernel = re.sub(r"[^\w.]+", "_", self.kernel.rpartition("/")[2])  # of a user's file without its folder
        return f"{self.property}-{kernel}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"

    def save(self, folder: Path) -> Path:
        """Write the finding into ``folder``, whole or not at all; returns its path."""
        path = folder / f"{self.name}.finding.json"
        document = {"gpusim_finding": FINDING_VERSION, **asdict(self)}
        write_whole(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
        return path

    @classmethod
    def load(cls, path: Path) -> Finding:
        """Read a file of :meth:`save`; FindingFileError, naming file and place, for any other."""
        document = read_document(
            path,
            "gpusim_finding",
            FINDING_VERSION,
            most_bytes=MOST_BYTES,
            what="finding",
            made_by="gpusim explore",
            error=FindingFileError,
        )
        del document["gpusim_finding"]
        for each in fields(cls):
            if each.name not in document and each.name not in _MAY_LACK:
                raise FindingFileError(f"{path}: not a finding: it lacks {each.name!r}")
        return as_record(cls, document, f"{path}: not a finding", FindingFileError, closed=True)
