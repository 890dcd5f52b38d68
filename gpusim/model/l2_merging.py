"""Reads that are merged before they come to the L2: of SMs of one group (GPC) that want the same line at the same time.

Mental model: each group of SMs has a table of the lines that are under way to it. A read of a line that is there asks
for nothing: it is answered with the one before it, whose data leave the L2 once, for all of them. Where the data have
left, the line is asked for again. A line's row is found by its number; a row that is in use is not given to another
line, whose reads are then not merged.

Source: of what four SMs of a cluster on a B200 ask for at a time a quarter comes to L2 (lts sectors over those of the
SMs 0.25 with tiles of 1 to 8 KiB, 0.55 with 56 KiB, of which the last come when the first are there), of 16 and 32
neighbouring blocks without clusters 0.49 and 0.31, of up to eight, each in another group, 0.9 to 0.98
(lookup1980/microbench-blackwell, tma2d_multicast). Nsight Compute names the unit: L2 Request Coalescer. Those are bulk
copies. That reads of warps (loads, ``cp.async``) are merged as well is what an H200 shows that reads 1.5 MB by loads at
13.5 TB/s, more than its slices give, and products on an H100 whose blocks read the same rows by ``cp.async``
(autotuned_h100: 54 rows 16 % off without, 11 with it and banks that are refreshed).
"""

from __future__ import annotations

from gpusim.model.compiled import inner
from gpusim.model.l2_state import (
    MERGED,
    MERGED_SECTORS,
    NEXT,
    READ_SECTORS,
    SECTORS,
    SIGNAL,
    L2Rates,
    L2State,
    drop_node,
    field,
    line_of,
)
from gpusim.model.l2_traffic import respond
from gpusim.model.messages import NEVER
from gpusim.model.sector_mask import popcount
from gpusim.state_tables import Table

MERGE_TABLE = Table(
    __name__,
    "merged",
    "a line that is under way to a group of SMs",
    "Reads that are answered together.",
    whole_lines=True,
)
M_LINE = MERGE_TABLE.column("index", "1 + the line's number; 0: none yet")
M_SECTORS = MERGE_TABLE.column("mask", "sectors that were asked for")
M_UNTIL = MERGE_TABLE.column("tick", "at which its data leave the L2; NEVER: not known yet")
M_OWNER = MERGE_TABLE.column("index", "node that was asked for, -1: it has been answered")
M_WAITER = MERGE_TABLE.column("link", "1 + the node that came last of those that are answered with it; 0: none")


@inner
def join_read(p: L2Rates, s: L2State, time: int, node: int) -> bool:
    """Whether the read has been answered, or will be, with one that is under way; else it is the one that others may
    join."""
    if field(s, node, SIGNAL):
        return False
    row = s.merged[field(s, node, MERGED)]
    line, sectors = line_of(s, node) + 1, field(s, node, SECTORS)
    under_way = row[M_UNTIL] > time
    if under_way and row[M_LINE] == line and row[M_OWNER] != node and sectors & ~row[M_SECTORS] == 0:
        count = popcount(sectors)
        s.scalars[READ_SECTORS] -= count
        s.scalars[MERGED_SECTORS] += count
        if row[M_UNTIL] == NEVER:
            s.nodes[node, NEXT] = row[M_WAITER] - 1
            row[M_WAITER] = node + 1
        else:
            respond(s, row[M_UNTIL] + p.response, node)
            drop_node(s, node)
        return True
    if not under_way:
        row[M_LINE], row[M_SECTORS], row[M_UNTIL], row[M_OWNER], row[M_WAITER] = line, sectors, NEVER, node, 0
    return False


@inner
def answer_read(p: L2Rates, s: L2State, time: int, node: int) -> None:
    """The data of a read leave the L2 at ``time``: answer it and those that were merged with it."""
    respond(s, time + p.response, node)
    if p.merges and field(s, node, SIGNAL) == 0:
        row = s.merged[field(s, node, MERGED)]
        if row[M_OWNER] == node and row[M_UNTIL] == NEVER and row[M_LINE] == line_of(s, node) + 1:
            row[M_UNTIL], row[M_OWNER] = time, -1  # the node's number is given to others
            other = row[M_WAITER] - 1
            row[M_WAITER] = 0
            while other >= 0:
                following = field(s, other, NEXT)
                respond(s, time + p.response, other)
                drop_node(s, other)
                other = following
    drop_node(s, node)
