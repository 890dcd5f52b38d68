"""The same pages as files: a folder that any web server, or none, shows.

Mental model: pages are made into a folder beside the target, which then changes places with it in one step; whoever
looks sees the old pages or the new ones, and a process that is killed leaves the old. What is no earlier export is
never replaced.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from gpusim.errors import UsageError
from gpusim.io.progress import task
from gpusim.io.whole_file import folder_for
from gpusim.serve import address, pages
from gpusim.serve.address import FileLinks, Links
from gpusim.serve.board import Board, asset
from gpusim.serve.history import read_history
from gpusim.serve.overview import ALERTS_A_PAGE, read_alerts
from gpusim.store.store import Store

#: Says that a folder is an export, which the next one may replace.
MARK = ".gpusim-board"
ASSETS = ("board.css", "icon.svg")
_AT_FDCWD, _EXCHANGE = -100, 2
Page = tuple[str, Callable[[Links], str | None]]


def export_pages(store: Store, target: Path) -> int:
    """Write every page of ``store`` into the folder ``target``, whole or not at all; how many there are. Raises
    UsageError for a folder that holds something else, OSError from the file system."""
    refuse_other(target)
    count = 0
    target.parent.mkdir(parents=True, exist_ok=True)
    with folder_for(target) as folder, task("export", 0, "pages") as shown:
        for where, page in all_pages(Board(store)):
            text = page(FileLinks(where))
            if text is None:  # deleted meanwhile
                continue
            path = folder / address.file_of(where)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            count += 1
            shown.to(count, where)
        (folder / "assets").mkdir()
        for name in ASSETS:
            (folder / "assets" / name).write_bytes(asset(name))
        (folder / MARK).write_text(f"{count} pages\n")
        mask = os.umask(0)
        os.umask(mask)
        folder.chmod(0o777 & ~mask)
        _replace(folder, target)
    return count


def all_pages(board: Board) -> Iterator[Page]:
    """The address of every page, and what makes it."""

    def made(page: Callable[..., str | None], *values: object) -> Callable[[Links], str | None]:
        return lambda links: page(board, links, *values)

    yield address.TODAY, made(pages.today)
    yield address.ACCURACY, made(pages.accuracy)
    number, left = 1, True
    while left:
        lines, count = read_alerts(board.store, number)
        yield address.alerts_page(number), made(pages.alerts, number)
        for line in lines:
            yield address.alert(line.number), made(pages.alert, line.number)
        left = number * ALERTS_A_PAGE < count
        number += 1
    for plan in board.plans():
        part, state = address.part(plan), board.state(plan)
        for number in range(1, max(1, -(-len(state.newest) // pages.SERIES_A_PAGE)) + 1):
            yield address.kernels(plan, number), made(pages.kernels, part, number)
        yield address.gpus(plan), made(pages.gpus, part)
        for first in state.gpus:
            for second in state.gpus:
                if first != second:
                    pair = made(pages.gpu_pair, part, address.part(first), address.part(second))
                    yield address.gpu_pair(plan, first, second), pair
        yield address.coverage(plan), made(pages.coverage, part)
        for each in state.newest:
            yield address.series(each.key.id), made(pages.series, each.key.id)
            for change in read_history(board.store, each.key).changes:
                yield address.change(each.key.id, change.position), made(pages.change, each.key.id, change.position)


def refuse_other(target: Path) -> None:
    """Raise UsageError for what an export must not replace."""
    if target.is_symlink() or target.exists() and not target.is_dir():
        raise UsageError(f"{target}: there is something that is no folder; give another place")
    if target.is_dir() and any(target.iterdir()) and not (target / MARK).is_file():
        raise UsageError(f"{target}: this folder holds something else than an export; give an empty one or a new name")


def _replace(folder: Path, target: Path) -> None:
    """Put ``folder`` where ``target`` is; what was there is in ``folder`` then, where there was something."""
    if not target.exists():
        os.rename(folder, target)
    elif not _exchanged(folder, target):
        beside = folder.with_name(f"{folder.name}.old")
        os.rename(target, beside)
        try:
            os.rename(folder, target)
        except OSError:
            os.rename(beside, target)
            raise
        os.rename(beside, folder)


def _exchanged(first: Path, second: Path) -> bool:
    """Let two folders change places in one step; False where the system cannot do that."""
    with contextlib.suppress(OSError, AttributeError):
        call = ctypes.CDLL(None, use_errno=True).renameat2
        return call(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _EXCHANGE) == 0
    return False
