"""Which format a file of measurements has, and its rows.

Mental model: each format has an importer, found by name among gpusim's own and those that installed packages declare
(:mod:`gpusim.silicon.imports.importer`). gpusim's own look at the file first, so that no stranger is loaded for what
gpusim knows; then the others are asked. Where two claim a file, the user says which; where none does, gpusim's own
reader of the nearest kind says what is wrong with it.

Files are untrusted: sizes are bounded, nothing in them is executed, and what is wrong is said with file and line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpusim.errors import GpusimError, MeasurementFormatError, UsageError
from gpusim.io.memory_limit import limited_memory
from gpusim.io.nearest import hint
from gpusim.io.plugins import OWN, Plugin, plugins
from gpusim.silicon.imports import ncu_csv, ncu_report, nvbench, plain_csv
from gpusim.silicon.imports.importer import Importer, in_utf8, read_text
from gpusim.silicon.own_importers import IMPORTERS
from gpusim.silicon.row import SiliconRow

GROUP = "gpusim.importers"
MAX_FILE_BYTES = 512 << 20
_HEAD_BYTES = 1 << 16
_NAMES = ("description", "recognises", "read")


def importers() -> dict[str, Plugin]:
    """The importers by name, gpusim's own first. Raises PluginError where two packages declare one name."""
    return plugins(GROUP, IMPORTERS)


def read_rows(path: Path, importer: str = "") -> list[SiliconRow]:
    """Rows of a file of any format that is known, or of that of the named ``importer``; never none.

    Raises MeasurementFormatError, OSError where the file cannot be read, UsageError for a name that no importer has,
    and PluginError for another package's importer that does not work.
    """
    path = Path(path)
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise MeasurementFormatError(f"{path}: {size} bytes, more than {MAX_FILE_BYTES} are refused")
    known = importers()
    if importer and importer not in known:
        raise UsageError(f"there is no importer {importer!r}; {hint(importer, known)}")
    with path.open("rb") as stream:
        head = in_utf8(stream.read(_HEAD_BYTES))
    plugin = known[importer] if importer else _that_recognises(list(known.values()), path, head)
    try:
        with limited_memory():
            rows = _nearest(path, head).read(path) if plugin is None else _read(plugin, path)
    except MemoryError:
        raise MeasurementFormatError(f"{path}: {size} bytes, too many for the free memory: split the file") from None
    if not rows:
        raise MeasurementFormatError(f"{path}: holds no measurement")
    return rows


def _that_recognises(known: Sequence[Plugin], path: Path, head: bytes) -> Plugin | None:
    """The importer that recognises the file, or none."""
    strangers = []
    for plugin in known:
        if plugin.distribution != OWN:
            strangers.append(plugin)
        elif _call(plugin, "recognises", path, head):
            return plugin
    found = [plugin for plugin in strangers if _call(plugin, "recognises", path, head)]
    if len(found) > 1:
        claims = " and ".join(f"{plugin.name} ({plugin.distribution})" for plugin in found)
        raise UsageError(f"{path} is claimed by the importers {claims}: name one with --importer")
    return found[0] if found else None


def _read(plugin: Plugin, path: Path) -> list[SiliconRow]:
    rows = _call(plugin, "read", path)
    if not isinstance(rows, list) or not all(isinstance(row, SiliconRow) for row in rows):
        raise plugin.broken(f"read() gave no list of SiliconRow for {path}")
    return rows


def _call(plugin: Plugin, what: str, *arguments: Any) -> Any:
    """One of the importer's functions; what a stranger's raises by mistake is said to be the stranger's."""
    importer = plugin.load()
    if lacking := [name for name in _NAMES if not hasattr(importer, name)]:
        raise plugin.broken(f"is no importer: it has no {', '.join(lacking)}")
    try:
        return getattr(importer, what)(*arguments)
    except (GpusimError, OSError, MemoryError):
        raise
    except Exception as error:
        if plugin.distribution == OWN:
            raise
        raise plugin.broken(f"{what}() failed on {arguments[0]}: {type(error).__name__}: {error}") from error


def _nearest(path: Path, head: bytes) -> Importer:
    """gpusim's own importer for a file that nobody recognises: it may be damaged, or have its header far down."""
    if b"\0" in head:
        return ncu_report
    if head.lstrip().startswith(b"{"):
        return nvbench
    return ncu_csv if ncu_csv.looks_like(read_text(path)) else plain_csv
