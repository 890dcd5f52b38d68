#!/usr/bin/env python3
"""What collecting from a whole fleet takes, from measured sizes: ``tools/fleet_plan.py --gpus 100000``.

Builds the messages that a process, a node and a middle collector send, reads them with the collector's own readers, commits them to
a ledger, and multiplies: bytes a second into each collector and its share of a core, once with all details kept on the way up, once
with `gpusim collect serve --coarse` at the nodes. A process has --rows rows a minute, whose number, names and bins are by default as in the
three traces of training of HolisticTraceAnalysis (193 to 290 rows, 49 to 85 names of 219 to 341 bytes, 3.3 to 4.3 bins a row). Jobs, and
how many nodes a middle collector has, are guesses: give your own.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from gpusim.collect.ledger import Incoming, Ledger
from gpusim.collect.server import forwarded, read_forwarded
from gpusim.collect.totals import Total, of_process
from gpusim.record import wire

BATCH_EVERY_S, NODE_GPUS, TOKEN = 10, 8, b"sixteen bytes ok"


@dataclass(frozen=True)
class Sizes:
    """Measured on messages: bytes of a batch, of a forwarded row, and CPU of a row that is committed."""

    batch_bytes: int
    row_bytes: float
    batch_row_seconds: float
    row_seconds: float


def batch(number: int, rows: int, names: int, name_bytes: int, bins: int, minute: int) -> bytes:
    """A process's batch of one GPU, whose rows share ``names`` kernels."""
    body = struct.pack("<QQQ", number, 0, 0) + b"G\0" + bytes(range(16))
    for name in range(names):
        text = (f"void kernel_{name}<" + "at::native::vectorized_elementwise, " * 12)[:name_bytes].encode()
        body += b"K" + struct.pack("<IQQHIH", name + 1, name + 1, 99, 64, 1024, len(text)) + text
    for row in range(rows):
        body += b"W" + struct.pack("<IIIHHHHHHIHBB", minute, row % names + 1, row + 1, 1, 1, 256, 1, 1, 0, 0, 1, 0, 0)
        body += struct.pack("<QQQQQB", bins, bins, 9000 * bins, 8000, 9500, bins)
        body += b"".join(struct.pack("<hI", 450 + bin, 1) for bin in range(bins))
    return wire.frame(wire.BATCH, body)


def measured(rows: int, names: int, name_bytes: int, bins: int) -> Sizes:
    """From messages of one process."""
    frame = batch(1, rows, names, name_bytes, bins, 9)
    with tempfile.TemporaryDirectory() as folder:
        ledger, times = Ledger(Path(folder), forwards=True), []
        for number in range(1, 21):  # the second batch of a minute merges, as most do
            began = time.process_time()
            read = wire.read_batch(batch(number, rows, names, name_bytes, bins, 9 + number // 6)[wire.HEADER_BYTES :])
            ledger.add([Incoming(b"s", number, [of_process(row, 1000, "", 0) for row in read.rows])])
            times.append(time.process_time() - began)
        totals = [of_process(row, 1000, "", 0) for row in wire.read_batch(frame[wire.HEADER_BYTES :]).rows]
        body = msgspec.msgpack.encode(totals)
        message = forwarded(b"c" * 16, 1, body, TOKEN)
        own = []
        for number in range(1, 21):
            began = time.process_time()
            told: list[Total] = read_forwarded(forwarded(b"c" * 16, number, body, TOKEN)[wire.HEADER_BYTES :], TOKEN)[2]
            ledger.add([Incoming(b"c", number, told)])
            own.append(time.process_time() - began)
        ledger.close()
    middle = len(times) // 2
    return Sizes(
        len(frame), len(message) / rows,
        sorted(times)[middle] / rows, sorted(own)[middle] / rows,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=200, help="programs that run at once in the fleet (a guess)")
    parser.add_argument(
        "--middle-nodes", type=int, default=128, help="nodes that send to one middle collector (a guess)"
    )
    parser.add_argument("--rows", type=int, default=250, help="rows of a process in a minute")
    parser.add_argument("--names", type=int, default=70, help="kernels that these rows share")
    parser.add_argument("--name-bytes", type=int, default=275)
    parser.add_argument("--bins", type=int, default=4)
    parser.add_argument("--period", type=int, default=60, help="seconds between forwarded messages")
    options = parser.parse_args()
    sizes = measured(options.rows, options.names, options.name_bytes, options.bins)
    print(
        f"measured: a batch of {options.rows} rows {sizes.batch_bytes} bytes; a forwarded row {sizes.row_bytes:.0f} bytes;"
        f" CPU of a row {sizes.batch_row_seconds * 1e6:.0f} us from a process, {sizes.row_seconds * 1e6:.0f} us from a collector"
    )
    nodes = -(-options.gpus // NODE_GPUS)
    middles = -(-nodes // options.middle_nodes)
    jobs_here = -(-options.jobs // middles)  # of one middle collector, where jobs lie together
    print(f"{options.gpus} GPUs, {nodes} nodes, {middles} middle collectors, {options.jobs} jobs; into one collector:")
    print(f"  {'':44}{'rows/s':>10}{'bytes/s':>14}{'of a core':>11}")
    rows_s = NODE_GPUS * options.rows / BATCH_EVERY_S
    line("node, from its processes", rows_s, NODE_GPUS * sizes.batch_bytes / BATCH_EVERY_S, sizes.batch_row_seconds)
    for name, of_node, of_middle in (
        ("all details", NODE_GPUS * options.rows, NODE_GPUS * options.rows * options.middle_nodes),
        ("--coarse at the nodes", options.rows, options.rows * jobs_here),
    ):
        into_middle = options.middle_nodes * of_node / options.period
        into_root = middles * of_middle / options.period
        line(f"middle, {name}", into_middle, into_middle * sizes.row_bytes, sizes.row_seconds)
        line(f"root, {name}", into_root, into_root * sizes.row_bytes, sizes.row_seconds)


def line(name: str, rows_s: float, bytes_s: float, row_seconds: float) -> None:
    """One level."""
    print(f"  {name:44}{rows_s:>10.0f}{bytes_s:>14.0f}{rows_s * row_seconds:>11.1%}")


if __name__ == "__main__":
    main()
