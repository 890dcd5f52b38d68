"""A finding: the worst case, the smallest case and the region that they stand for, as a file that runs again.

Mental model: a divergence is kept as three shapes of one fact. The file says all that is needed to rerun it: property
and its options, GPU with its settings, kernel, shapes, and what was measured, to the last digit.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpusim import __version__
from gpusim.errors import FindingFileError
from gpusim.io.document import read_document
from gpusim.io.whole_file import write_whole

FINDING_VERSION = 1
MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Witness:
    """A shape and what was measured on it."""

    shape: Mapping[str, Any]
    divergence: float
    detail: str


@dataclass(frozen=True)
class Finding:
    """``property`` with its ``options`` (as the command line takes them), ``gpu`` with ``settings``; ``worst`` and
    ``minimal``; the region's ``rule`` with the counts behind it; ``explains``: runs of the search that lie in it;
    ``behaviour``: what it has in common with the search's other divergences (:mod:`gpusim.explore.shared_behaviour`), or empty."""

    property: str
    options: Mapping[str, Any]
    gpu: str
    settings: tuple[str, ...]
    kernel: str
    worst: Witness
    minimal: Witness
    rule: str
    inside: int
    misses: int
    escapes: int
    witnesses_inside: tuple[Mapping[str, Any], ...] = ()
    witnesses_outside: tuple[Mapping[str, Any], ...] = ()
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
        try:
            return _read(document)
        except (KeyError, TypeError, ValueError) as error:
            raise FindingFileError(f"{path}: not a finding: {type(error).__name__} {error}") from None


def _read(document: dict[str, Any]) -> Finding:
    fields = dict(document)
    for name in ("property", "gpu", "kernel", "rule", "gpusim_version"):
        fields[name] = _checked(name, document[name], str)
    fields["behaviour"] = _checked("behaviour", document.get("behaviour", ""), str)
    for name in ("inside", "misses", "escapes", "explains"):
        fields[name] = _checked(name, document[name], int)
    for name in ("worst", "minimal"):
        fields[name] = _witness(name, document[name])
    for name in ("witnesses_inside", "witnesses_outside"):
        witnesses = enumerate(_checked(name, document[name], list))
        fields[name] = tuple(_shape(f"{name}[{i}]", each) for i, each in witnesses)
    fields["options"] = _shape("options", document["options"])
    settings = _checked("settings", document["settings"], list)
    fields["settings"] = tuple(_checked("settings", each, str) for each in settings)
    return Finding(**fields)


def _witness(name: str, value: Any) -> Witness:
    _checked(name, value, dict)
    divergence = value["divergence"]
    if isinstance(divergence, bool) or not isinstance(divergence, (int, float)) or not math.isfinite(divergence):
        raise ValueError(f"{name}.divergence must be a number")
    return Witness(_shape(f"{name}.shape", value["shape"]), float(divergence), _checked(name, value["detail"], str))


def _shape(name: str, value: Any) -> dict[str, Any]:
    _checked(name, value, dict)
    for axis, each in value.items():
        if not isinstance(each, (str, int, float, bool)):
            raise ValueError(f"{name}.{axis} must be a number or a text")
    return value


def _checked(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} must be {kind.__name__}")
    return value
