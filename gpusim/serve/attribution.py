"""A change of a simulated series taken apart: which stalls, lines and instructions it is made of.

Mental model: the store keeps the launch of each point with its warp-cycles by instruction; two of them are laid beside
each other by :mod:`gpusim.regress.attribution`, whose terms add up to the difference. Nothing is simulated.
"""

from __future__ import annotations

from sqlalchemy import select

from gpusim.regress.attribution import Attribution, attribute
from gpusim.store.launch import SimulatedLaunch
from gpusim.store.run import read_launch
from gpusim.store.schema import launches
from gpusim.store.store import Store


def read_attribution(store: Store, before: int | None, after: int | None) -> Attribution | None:
    """The difference between two stored launches; None where one of them is not kept."""
    if before is None or after is None:
        return None
    found: dict[int, SimulatedLaunch] = {}
    with store.reading() as connection:
        if connection is None:
            return None
        for row in connection.execute(select(launches).where(launches.c.id.in_((before, after)))).mappings():
            found[row["id"]] = read_launch(row)
    if before not in found or after not in found:
        return None
    return attribute(found[before], found[after])
