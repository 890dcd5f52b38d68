"""The reference of what a search works with: the suite's kernels with their axes, and the cover points with their bins.

Mental model: both are data of the program (``kernels/``, ``gpusim/explore/points.py``); each function makes one table
of Markdown of them, and ``write_docs.py`` puts it into the pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from docs_tables import table

from gpusim.cases.names import kernel_names
from gpusim.cases.suite import find_kernel
from gpusim.explore.points import CROSSES, POINTS


def kernels() -> str:
    """Each kernel of the suite: what it is there for, and its axes with their defaults."""
    rows = []
    for name in kernel_names():
        entry = find_kernel(name)
        axes = ", ".join(f"`{axis}={entry.default[axis]}`" for axis in entry.axes)
        rows.append([f"`{name}`", entry.purpose.replace("|", "\\|"), axes])
    return table(["kernel", "what it is there for", "axes with their defaults"], rows)


def cover_points() -> str:
    """Each cover point: what it asks of a launch, and its bins."""
    rows = [[f"`{point.name}`", point.asks, ", ".join(f"`{name}`" for name in point.bins)] for point in POINTS.values()]
    return table(["cover point", "what it asks", "bins"], rows)


def crosses() -> str:
    """Pairs of cover points that are looked at together."""
    return ", ".join(f"`{first}` x `{second}`" for first, second in CROSSES)


SUITE: Mapping[str, Callable[[], str]] = {"kernels": kernels, "cover points": cover_points, "crosses": crosses}
