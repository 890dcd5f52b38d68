#!/usr/bin/env python3
"""How fast traces are imported, and in how much memory: ``tools/import_speed.py --megabytes 1000``.

Writes a trace like those of PyTorch's profiler (operators with shapes, launch calls, kernels on two streams, arrows,
collectives; drawn with a seed), imports it in a process of its own and prints megabytes a CPU second and the largest
resident set. ``--gzip`` compresses it, ``--file`` takes a trace that is there. ``--ijson`` also counts the events with
ijson, if that is installed: what a reader of single events costs that knows nothing of launches. Exit code 1 where the
memory is above ``--most-mib``.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from gpusim.production.imports.importing import imported

#: Of the kernels, drawn by rank: a few names take most launches, as in real traces.
NAMES = [f"void at::native::vectorized_elementwise_kernel<4, at::native::Functor{i}<float>, at::detail::Array<char*, 3> >(int, at::native::Functor{i}<float>, at::detail::Array<char*, 3>)" for i in range(80)]  # fmt: skip
#: Launches of a step.
STEP = 2000
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


def events(draw: random.Random) -> Iterator[str]:
    """Endless events, as Kineto writes them."""
    now, free, number = 1_000_000.0, 1_000_000.0, 0
    # A step launches the same operators each time: so do programs, and so few rows stand for many launches.
    step = [
        (min(len(NAMES) - 1, int(draw.expovariate(0.08))), 1 << draw.randrange(4, 12), 1 << draw.randrange(6, 12))
        for _ in range(STEP)
    ]
    while True:
        number += 1
        now += draw.expovariate(1 / 15)
        length = draw.lognormvariate(2.5, 1.2)
        is_collective = number % 50 == 0
        which, blocks, columns = step[number % STEP]
        name = REDUCE if is_collective else NAMES[which]
        free = max(free, now + 6)
        dims = json.dumps([[blocks, 1024], [1024, columns]])
        host = f'"pid": 4000, "tid": {4000 + number % 2}'
        if number % STEP == 1:
            yield f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{number // STEP}", {host}, "ts": {now - 9:.3f}, "dur": 28000.0, "args": {{"External id": {number}}}}}'
        yield f'{{"ph": "X", "cat": "cpu_op", "name": "aten::op{which}", {host}, "ts": {now - 5:.3f}, "dur": 11.2,\n    "args": {{\n      "External id": {number}, "Ev Idx": {number}, "Input Dims": {dims}, "Input type": ["float", "float"], "Sequence number": {number}\n    }}\n  }}'
        yield f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", {host},\n    "ts": {now:.3f}, "dur": 3.1,\n    "args": {{\n      "External id": {number}, "cbid": 211, "correlation": {number}\n    }}\n  }}'
        yield f'{{"ph": "s", "id": {number}, {host}, "ts": {now:.3f}, "cat": "ac2g", "name": "ac2g"}}'
        stream = 20 if is_collective else 7
        told = (
            '"Collective name": "allreduce", "In msg nelems": 65536, "Group size": 8, "dtype": "Float", "Process Group Name": "0",'
            if is_collective
            else ""
        )
        yield f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": {stream},\n    "ts": {free:.3f}, "dur": {length:.3f},\n    "args": {{\n      "External id": {number}, {told}\n      "queued": 0, "device": 0, "context": 1, "stream": {stream}, "correlation": {number},\n      "registers per thread": 32, "shared memory": 0, "blocks per SM": 7.5, "warps per SM": 30.1,\n      "grid": [{blocks}, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 47\n    }}\n  }}'
        yield f'{{"ph": "f", "id": {number}, "pid": 0, "tid": {stream}, "ts": {free:.3f}, "cat": "ac2g", "name": "ac2g", "bp": "e"}}'
        free += length


def write(stream: TextIO, most_bytes: int, seed: int) -> int:
    """A trace of about ``most_bytes``; how many events it has."""
    count = size = 0
    stream.write(
        '{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "distributedInfo": {"rank": 0}, "traceEvents": [\n'
    )
    for text in events(random.Random(seed)):
        stream.write(("  ," if count else "  ") + text + "\n")
        count, size = count + 1, size + len(text) + 4
        if size >= most_bytes:
            break
    stream.write('], "traceName": "generated"}\n')
    return count


def measured(path: Path) -> dict[str, float]:
    """Import it here; CPU seconds and the largest resident set of this process."""
    begun = time.process_time()
    production = imported([path])
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu_seconds": time.process_time() - begun, "peak_mib": own, "events": production.sources[0].events,
            "launches": production.sources[0].launches, "rows": len(production.totals)}  # fmt: skip


def with_ijson(path: Path) -> float:
    """CPU seconds in which ijson turns the events into dicts."""
    ijson = importlib.import_module("ijson")
    begun = time.process_time()
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        sum(1 for _ in ijson.items(stream, "traceEvents.item", use_float=True))
    return time.process_time() - begun


def main() -> int:
    """Write, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000, help="of the generated trace, before gzip")
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--file", type=Path, help="instead of a generated one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-mib", type=float, default=500)
    parser.add_argument("--ijson", action="store_true")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measured(asked.measure)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = asked.file or Path(folder) / ("trace.json.gz" if asked.gzip else "trace.json")
        if asked.file is None:
            with gzip.open(path, "wt", 1) if asked.gzip else path.open("w") as stream:
                write(stream, asked.megabytes * 1_000_000, asked.seed)
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as stream:
            size = sum(len(piece) for piece in iter(lambda: stream.read(1 << 20), b"")) / 1e6
        told = subprocess.run(
            [sys.executable, __file__, "--measure", str(path)], check=True, capture_output=True, text=True
        )
        found = json.loads(told.stdout.splitlines()[-1])
        print(
            f"{size:.0f} MB of JSON, {path.stat().st_size / 1e6:.0f} MB on the disk: {found['events']:,} events, {found['launches']:,} launches, {found['rows']:,} rows"
        )
        print(
            f"{found['cpu_seconds']:.1f} CPU s: {size / found['cpu_seconds']:.0f} MB a CPU second; at most {found['peak_mib']:.0f} MiB resident"
        )
        if asked.ijson:
            seconds = with_ijson(path)
            print(f"ijson, events to dicts alone: {seconds:.1f} CPU s: {size / seconds:.0f} MB a CPU second")
    return int(found["peak_mib"] > asked.most_mib)


if __name__ == "__main__":
    sys.exit(main())
