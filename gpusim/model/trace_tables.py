"""The parts of a trace that are at hand, as tables of integers that the jitted functions read.

Mental model: a warp's row names its runs and its first access in one part of the trace; a run is consecutive
instructions under one mask; an access is the addresses of 32 lanes, as base and stride or as base and a row of
``scattered``, which accesses share whose lanes lie alike.
All positions are the tables' own. :mod:`gpusim.engine.arena` keeps them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.state_tables import Table

LANES = 32

ROW_TABLE = Table(__name__, "tables.warps", "a warp in one part of the trace", "What it executes there.")
W_RUN = ROW_TABLE.column("index", "its first run")
W_RUN_END = ROW_TABLE.column("index", "behind its last run")
W_ACCESS = ROW_TABLE.column("index", "its first access")
W_PART = ROW_TABLE.column("index", "the part")
W_POLLS = ROW_TABLE.column("count", "of its runs that are rounds of polling loops, which may not be executed")
W_NEXT = ROW_TABLE.column("link", "row to go on with, or ENDS, NOT_HERE, UNKNOWN")
#: W_NEXT where there is no row: the warp ends here; it goes on in a part that is not here yet; nobody knows yet.
ENDS, NOT_HERE, UNKNOWN = -1, -2, -3

RUN_TABLE = Table(__name__, "tables.runs", "a run", "Consecutive instructions under one mask.")
RUN_FIRST = RUN_TABLE.column("index", "its first instruction")
RUN_COUNT = RUN_TABLE.column("count", "instructions")
RUN_MASK = RUN_TABLE.column("mask", "lanes that are on")
RUN_POLL = RUN_TABLE.column("count", "runs, from this one on, that are a round of a polling loop; 0: none")

ACCESS_TABLE = Table(__name__, "tables.accesses", "an access record", "The addresses of one memory instruction.")
A_ADDRESS = ACCESS_TABLE.column("address", "of lane 0; of a scattered one of its first active lane")
A_STRIDE = ACCESS_TABLE.column("bytes", "from lane to lane; up to SCATTERED: SCATTERED less the row of ``scattered``")
A_MASK = ACCESS_TABLE.column("mask", "lanes that access memory")
A_SIGNAL = ACCESS_TABLE.column(
    "index", "1 + its first row of ``signals``; 0: it writes and polls nothing that warps wait for"
)

A_BULK = ACCESS_TABLE.column("index", "1 + its first row of ``bulks``; 0: it moves no box")

BULK_TABLE = Table(
    __name__, "tables.bulks", "a box of a bulk copy", "What the tensor memory accelerator moves; see the trace's BULK."
)
B_ADDRESS = BULK_TABLE.column("address", "of its first row")
B_ROW_BYTES = BULK_TABLE.column("bytes", "of a row")
B_STRIDE = BULK_TABLE.column("bytes", "from row to row, along each of four dimensions", span=4)
B_COUNT = BULK_TABLE.column("count", "rows along each of four dimensions", span=4)
B_KIND = BULK_TABLE.column("code", "of gpusim.trace.record.MemoryKind")
B_BYTES = BULK_TABLE.column("bytes", "of shared memory in all")
B_BLOCKS = BULK_TABLE.column("mask", "blocks of the cluster that take part; 0: its own alone")
B_MAPPED = BULK_TABLE.column("flag", "a tensor map says what to move")
B_MORE = BULK_TABLE.column("flag", "the next row is of the same access")

SCATTER_TABLE = Table(__name__, "tables.scattered", "a pattern of scattered accesses", "Where their lanes lie.")
LANE_OFFSET = SCATTER_TABLE.column("bytes", "from the first active lane to each; 0 where it is off", span=LANES)
PATTERN = SCATTER_TABLE.column("index", "a number of its own, below SCATTERED, of no other pattern of the launch")
FOLLOWING = SCATTER_TABLE.column("link", "1 + the pattern that stood behind it last, as its part was read; 0: none")

SIGNAL_TABLE = Table(
    __name__,
    "tables.signals",
    "a word that an access writes or polls",
    "What polling warps wait for; see the trace's SIGNAL.",
)
G_WORD = SIGNAL_TABLE.column("index", "the word")
G_COUNT = SIGNAL_TABLE.column("count", "writes of it that a poll has to see; of a write its number")
G_POLLS = SIGNAL_TABLE.column("flag", "1: the access polls the word; 0: it writes it")
G_LINE = SIGNAL_TABLE.column("index", "of the word: address over 128")
G_MORE = SIGNAL_TABLE.column("flag", "the next row is of the same access")
G_BLOCK = SIGNAL_TABLE.column("index", "block that wrote last")
G_WARP = SIGNAL_TABLE.column("index", "warp of it that wrote last")
G_ADDRESS = SIGNAL_TABLE.column("address", "of the word")


class Tables(NamedTuple):
    """The tables as the jitted loops see them."""

    warps: np.ndarray
    runs: np.ndarray
    accesses: np.ndarray
    scattered: np.ndarray
    signals: np.ndarray
    bulks: np.ndarray
