"""Where a plan's history has holes: commits whose cells are missing or refused, series that have lost their value.

Mental model: a cell that was run is kept, with values or a refusal; a series whose newest value is older than the
plan's newest commit has a hole at its end, which a refusal explains or nothing does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from gpusim.serve.newest import Newest, PlanState
from gpusim.serve.overview import MOST_COMMITS
from gpusim.store.schema import commits, refusals
from gpusim.store.store import Store
from gpusim.watch.read_history import CommitState, KeptRefusal, plan_commits

MOST_REFUSALS, MOST_SERIES = 100, 200


@dataclass(frozen=True)
class Holes:
    """``commits``: newest first; ``refused``: of the newest commit with cells, first :data:`MOST_REFUSALS`; ``behind``:
    series without a value there, first :data:`MOST_SERIES` of ``behind_count``."""

    commits: Sequence[CommitState]
    refused: Sequence[KeptRefusal]
    refused_count: int
    behind: Sequence[Newest]
    behind_count: int


def read_holes(store: Store, state: PlanState) -> Holes:
    """The holes of the plan of ``state``."""
    with store.reading() as connection:
        if connection is None:
            return Holes((), (), 0, (), 0)
        lines = plan_commits(connection, state.plan, MOST_COMMITS)
        newest = next((line for line in lines if line.cells or line.refused), None)
        if newest is None:
            return Holes(lines, (), 0, (), 0)
        query = (
            select(commits.c.hash, commits.c.position, refusals.c.request, refusals.c.gpu, refusals.c.toolchain,
                   refusals.c.kind, refusals.c.message)
            .join(commits, commits.c.id == refusals.c.commit_id)
            .where(commits.c.plan == state.plan, commits.c.hash == newest.hash)
            .order_by(refusals.c.id)
            .limit(MOST_REFUSALS)
        )  # fmt: skip
        refused = [KeptRefusal(*row) for row in connection.execute(query)]
    behind = [each for each in state.newest if each.position < newest.position]
    return Holes(lines, refused, newest.refused, behind[:MOST_SERIES], len(behind))
