#!/usr/bin/env python3
"""What collecting from a whole fleet takes, from measured sizes: ``tools/fleet_plan.py --gpus 100000``.

Builds the messages that a process, a node and a middle collector send, reads them with the collector's own readers,
commits them to a ledger, and multiplies: bytes a second into each collector and its share of a core, once with all
details kept on the way up, once with `gpusim collect serve --coarse` at the nodes. A process has --rows rows a minute,
whose number, names and bins are by default as in the three traces of training of HolisticTraceAnalysis (193 to 290
rows, 49 to 85 names of 219 to 341 bytes, 3.3 to 4.3 bins a row). What compression makes of messages rests on what is in
them: hashes, shapes, counts and times are drawn, and names are put together of a few parts and drawn numbers. --trace
FILE takes the rows of a trace in their place. Jobs, and how many nodes a middle collector has, are guesses: give your
own.
"""

from __future__ import annotations

import argparse
import math
import random
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from gpusim.collect.ledger import MESSAGE_BYTES, Incoming, Ledger
from gpusim.collect.message import forwarded, read_forwarded
from gpusim.collect.totals import Total, What, of_process
from gpusim.production.imports.importing import imported
from gpusim.record import wire

BATCH_EVERY_S, NODE_GPUS, TOKEN = 10, 8, b"sixteen bytes ok"


#: Parts of names of kernels; what stands between them is drawn.
PARTS = (
    "at::native::", "vectorized_elementwise_kernel<", "CUDAFunctor_add<float>, ", "at::detail::Array<char*, 3>, ", "unrolled_",
    "gpu_kernel_impl_nocast<", "cutlass::epilogue::thread::LinearCombination<", "cutlass::gemm::GemmShape<", "c10::Half, ", "lambda(float)#",
)  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Measured on messages: bytes of a batch, of a row in a forwarded message with and without compression, and CPU of
    a row that is committed.
    ``detailed``: a message of all GPUs of a node; else of one program's rows."""

    batch_bytes: int
    plain_row_bytes: float
    row_bytes: float
    detailed_row_bytes: float
    batch_row_seconds: float
    row_seconds: float


def batch(draw: random.Random, number: int, rows: int, names: int, name_bytes: int, bins: int, minute: int) -> bytes:
    """A process's batch of one GPU, whose rows share ``names`` kernels."""
    body = struct.pack("<QQQ", number, 0, 0) + b"G\0" + bytes(range(16))
    for name in range(names):
        text = "void "
        while len(text) < name_bytes:
            text += f"{draw.choice(PARTS)}{draw.randrange(100)}"
        text = text[:name_bytes].encode()
        hashes = draw.getrandbits(64), draw.getrandbits(64)
        body += b"K" + struct.pack("<IQQHIH", name + 1, *hashes, draw.randrange(16, 255), 1024, len(text)) + text
    for row in range(rows):
        x, y = draw.randrange(1, 4000), draw.randrange(1, 9)
        body += b"W" + struct.pack(
            "<IIIHHHHHHIHBB", minute, row % names + 1, x, y, 1, 256, 1, 1, 0, draw.choice((0, 49152)), 1, 0, 0
        )
        mean_ns = draw.lognormvariate(9, 1.5)
        first, counts = max(0, int(math.log(mean_ns) / 0.02)), [draw.randrange(1, 200) for _ in range(bins)]
        sums = sum(counts), sum(counts), int(mean_ns * sum(counts)), int(mean_ns * 0.9), int(mean_ns * 1.2)
        body += struct.pack("<QQQQQB", *sums, bins)
        body += b"".join(struct.pack("<hI", first + bin, count) for bin, count in enumerate(counts))
    return wire.frame(wire.BATCH, body)


def of_trace(path: Path) -> list[Total]:
    """The rows of a trace, as a collector keeps those of a process."""
    found = []
    for total in imported([path]).totals:
        own = total.what
        what = What(
            29_000_000, 1, 1000, "", 0, "", own.kernel, "", "", own.grid or (0, 0, 0), own.block or (0, 0, 0), own.registers or 0, 0,
            own.shared_bytes or 0, "launch", own.phase,
        )  # fmt: skip
        found.append(Total(what, total.launches, total.timed, total.sum_ns, total.least_ns, total.most_ns, total.bins))
    return found


def on_gpu(draw: random.Random, total: Total, gpu: str, rank: int) -> Total:
    """The same kernel and shape on another GPU, whose times are its own."""
    bins = dict(total.bins)
    for at in list(bins):
        moved = draw.randint(0, bins[at])
        bins[at] -= moved
        bins[at + 1] = bins.get(at + 1, 0) + moved
    sum_ns, least_ns, most_ns = (
        int(ns * draw.uniform(0.95, 1.05)) for ns in (total.sum_ns, total.least_ns, total.most_ns)
    )
    what = msgspec.structs.replace(total.what, gpu=gpu, rank=rank)
    return Total(
        what, total.launches, total.timed, sum_ns, least_ns, most_ns, {at: count for at, count in bins.items() if count}
    )


def whole_message(totals: list[Total]) -> tuple[list[Total], bytes]:
    """As many rows as a message has, and their MessagePack."""
    body = msgspec.msgpack.encode(totals)
    if len(body) > MESSAGE_BYTES:
        totals = totals[: len(totals) * MESSAGE_BYTES // len(body)]
        body = msgspec.msgpack.encode(totals)
    return totals, body


def measured(draw: random.Random, shape: tuple[int, int, int, int], trace: Path | None) -> Sizes:
    """From messages of one process. ``shape``: rows, names, bytes of a name, bins."""
    rows = shape[0]
    frame = batch(draw, 1, *shape, 9)
    own = (
        of_trace(trace)
        if trace
        else [of_process(row, 1000, "", 0) for row in wire.read_batch(frame[wire.HEADER_BYTES :]).rows]
    )
    node = []
    for rank in range(NODE_GPUS):
        gpu = draw.randbytes(16).hex()
        node += [on_gpu(draw, each, gpu, rank) for each in own]
    draw.shuffle(node)  # as digests order them
    coarse, body = whole_message(
        [msgspec.structs.replace(each, what=msgspec.structs.replace(each.what, gpu="", rank=-1)) for each in own]
    )
    detailed, node_body = whole_message(node)
    with tempfile.TemporaryDirectory() as folder:
        ledger, times = Ledger(Path(folder), forwards=True), []
        for number in range(1, 21):  # the second batch of a minute merges, as most do
            data = batch(draw, number, *shape, 9 + number // 6)[wire.HEADER_BYTES :]
            began = time.process_time()
            read = wire.read_batch(data)
            ledger.add([Incoming(b"s", number, [of_process(row, 1000, "", 0) for row in read.rows])])
            times.append(time.process_time() - began)
        took = []
        for number in range(1, 21):
            data = forwarded(b"c" * 16, number, body, TOKEN)[wire.HEADER_BYTES :]
            began = time.process_time()
            told = read_forwarded(wire.FORWARD_COMPRESSED, data, TOKEN)[2]
            ledger.add([Incoming(b"c", number, told)])
            took.append(time.process_time() - began)
        ledger.close()
    middle = len(times) // 2
    return Sizes(
        len(frame), len(node_body) / len(detailed), len(forwarded(b"c" * 16, 1, body, TOKEN)) / len(coarse),
        len(forwarded(b"c" * 16, 1, node_body, TOKEN)) / len(detailed), sorted(times)[middle] / rows, sorted(took)[middle] / len(coarse),
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
    parser.add_argument("--trace", type=Path, help="a trace whose rows the forwarded messages have")
    options = parser.parse_args()
    shape = options.rows, options.names, options.name_bytes, options.bins
    sizes = measured(random.Random(1), shape, options.trace)
    print(
        f"measured: a batch of {options.rows} rows {sizes.batch_bytes} bytes; a forwarded row {sizes.plain_row_bytes:.0f} bytes, compressed"
        f" {sizes.detailed_row_bytes:.0f} with all details of a node and {sizes.row_bytes:.0f} without; CPU of a row"
        f" {sizes.batch_row_seconds * 1e6:.0f} us from a process, {sizes.row_seconds * 1e6:.0f} us from a collector"
    )
    nodes = -(-options.gpus // NODE_GPUS)
    middles = -(-nodes // options.middle_nodes)
    jobs_here = -(-options.jobs // middles)  # of one middle collector, where jobs lie together
    print(f"{options.gpus} GPUs, {nodes} nodes, {middles} middle collectors, {options.jobs} jobs; into one collector:")
    print(f"  {'':44}{'rows/s':>10}{'bytes/s':>14}{'of a core':>11}")
    rows_s = NODE_GPUS * options.rows / BATCH_EVERY_S
    line("node, from its processes", rows_s, NODE_GPUS * sizes.batch_bytes / BATCH_EVERY_S, sizes.batch_row_seconds)
    for name, of_node, of_middle, row_bytes in (
        (
            "all details",
            NODE_GPUS * options.rows,
            NODE_GPUS * options.rows * options.middle_nodes,
            sizes.detailed_row_bytes,
        ),
        ("--coarse at the nodes", options.rows, options.rows * jobs_here, sizes.row_bytes),
    ):
        into_middle = options.middle_nodes * of_node / options.period
        into_root = middles * of_middle / options.period
        line(f"middle, {name}", into_middle, into_middle * row_bytes, sizes.row_seconds)
        line(f"root, {name}", into_root, into_root * row_bytes, sizes.row_seconds)


def line(name: str, rows_s: float, bytes_s: float, row_seconds: float) -> None:
    """One level."""
    print(f"  {name:44}{rows_s:>10.0f}{bytes_s:>14.0f}{rows_s * row_seconds:>11.1%}")


if __name__ == "__main__":
    main()
