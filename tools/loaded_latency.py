"""What a DRAM access waits when others are under way: latency against offered load, of the simulated DRAM alone.

    python tools/loaded_latency.py a100_80gb h200 rtx2070_super
    python tools/loaded_latency.py a40 --set dram.scattered_rows=256

Mental model: reads arrive at the channels at random times (exponential gaps), so many a second that they would fill a
share of DRAM's rate; nothing waits for their answers, so no SM and no cache shapes the load. What differs is where they
lie: one stream in order, several streams in turn, or places drawn evenly, each read a line or a part of one. A latency
is from the arrival at the channel to the last byte on the bus, less the least that any has; where the load is more than
the pattern can have, the queue grows for ever and `-` stands there. Streams tell what banks and turns of channels add,
places drawn at random what rows cost that are opened.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from gpusim.engine.hbm import HbmPart
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.model.address_hash import channel_of
from gpusim.model.crossbar import ticks
from gpusim.model.messages import DRAM_REQUEST, READ
from gpusim.report.tables import FORMATS, format_records

SHARES = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
#: Name -> (streams, 0: drawn evenly; sectors of a read).
PATTERNS = {"a stream": (1, 4), "4 streams": (4, 4), "random lines": (0, 4), "random 64 B": (0, 2)}
READS, FIRST = 20_000, 4_000
SPAN_LINES = 1 << 24  # 2 GiB


def lines_of(streams: int, count: int, draw: np.random.Generator) -> np.ndarray:
    """Numbers of the lines that are read, in order of arrival."""
    if streams == 0:
        return draw.integers(0, SPAN_LINES, count)
    turn = np.arange(count)
    return turn // streams + turn % streams * (SPAN_LINES // streams + 4099)


def mean_wait_ns(gpu: GpuSpec, streams: int, sectors: int, share: float) -> float | None:
    """What a read waits and takes, without the way; None where the queue grows."""
    draw = np.random.default_rng(7)
    part = HbmPart(gpu)
    lines = lines_of(streams, READS, draw)
    gap_ns = sectors * gpu.l2.sector_bytes / (share * gpu.dram.stream_bytes_per_ns)
    times = np.array([ticks(gpu, at) for at in np.cumsum(draw.exponential(gap_ns, READS))])
    requests = np.zeros(READS, DRAM_REQUEST)
    requests["time"], requests["line"] = times, lines * gpu.l2.line_bytes
    requests["sequence"] = requests["handle"] = np.arange(READS)
    requests["channel"] = [channel_of(line, part.rates.layout, gpu.dram.channels) for line in lines.tolist()]
    requests["kind"], requests["sectors"] = READ, (1 << sectors) - 1
    part.deliver(requests)
    answers = np.concatenate(part.advance(int(times[-1]) * 4))
    waits = np.zeros(READS)
    waits[answers["handle"]] = answers["time"] - times[answers["handle"]] - part.rates.answer
    waits *= 1 / ticks(gpu, 1000.0) * 1000.0
    kept = waits[FIRST:]
    early, late = kept[: len(kept) // 2].mean(), kept[len(kept) // 2 :].mean()
    return None if late > 1.5 * early and late > 300 else float(kept.mean())


@click.command(help=__doc__)
@click.argument("gpus", nargs=-1)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a value of each description.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table")
def main(gpus: tuple[str, ...], changes: tuple[str, ...], form: str) -> None:
    """See the module's text."""
    rows = []
    for name in gpus or ("a100_80gb", "h200", "rtx2070_super"):
        gpu = override_gpu(load_gpu(name), changes)
        for pattern, (streams, sectors) in PATTERNS.items():
            row: dict[str, object] = {"gpu": name, "reads": pattern}
            for share in SHARES:
                wait = mean_wait_ns(gpu, streams, sectors, share)
                row[f"{share:.0%}"] = "-" if wait is None else f"{wait:.0f}"
            rows.append(row)
    click.echo(format_records(rows, form))


if __name__ == "__main__":
    main()
