"""Which importer reads a file, and the files of a folder of ranks.

Mental model: each importer looks at the first bytes, ungzipped; exactly one must know them, unless the format is named.
A folder is its files that some importer knows, in the order of their names: what else lies there is passed over and
noted.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from gpusim.errors import ProductionError, UsageError
from gpusim.production.file import Production
from gpusim.production.imports import chakra, kineto, measurements, nsys, param, xla
from gpusim.production.imports.json_events import GZIP
from gpusim.production.timing.collectives import Collectives

HEAD_BYTES = 1 << 16
MOST_FILES = 100_000


class Importer(Protocol):
    """Reads one format; ``description``: which, for a person."""

    @property
    def description(self) -> str: ...

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether the file at ``path``, which begins with ``head``, is of this format."""
        ...

    def read(self, path: Path, collectives: Collectives | None = None) -> Production:
        """What it tells. Raises ProductionError."""
        ...


#: In this order: a trace of XLA is a Chrome trace too.
IMPORTERS: dict[str, Importer] = {
    "xla": xla, "kineto": kineto, "nsys": nsys, "param": param, "chakra": chakra, **measurements.IMPORTERS,
}  # fmt: skip


def head_of(path: Path) -> bytes:
    """The first bytes of a file, ungzipped. Raises ProductionError for a damaged one."""
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if not head.startswith(GZIP):
        return head
    unzip = zlib.decompressobj(wbits=31)
    try:
        return unzip.decompress(head, HEAD_BYTES)
    except (zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise ProductionError(f"{path}: the gzip file is damaged ({error})") from None


def importer_of(path: Path) -> Importer | None:
    """Who knows a file; None: nobody."""
    head = head_of(path)
    return next((each for each in IMPORTERS.values() if each.recognises(path, head)), None)


def readers(paths: Iterable[Path], form: str | None) -> Iterator[tuple[Path, Importer]]:
    """The files of ``paths`` and who reads each. Raises UsageError for what nobody reads."""
    for path in paths:
        if not path.is_dir():
            found = IMPORTERS[form] if form else importer_of(path)
            if found is None:
                known = "; ".join(f"{name} ({each.description})" for name, each in IMPORTERS.items())
                raise UsageError(f"{path}: no trace of a known format: {known}")
            yield path, found
            continue
        files = sorted(each for each in path.rglob("*") if each.is_file())
        if len(files) > MOST_FILES:
            raise UsageError(f"{path} holds {len(files)} files, at most {MOST_FILES} are taken")
        any_known = False
        for each in files:
            found = importer_of(each)
            if found is not None and (form is None or found is IMPORTERS[form]):
                any_known = True
                yield each, IMPORTERS[form] if form else found
        if not any_known:
            raise UsageError(f"{path}: no file of a known format in this folder")
