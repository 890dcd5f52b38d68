"""Small sound files of every format, written by gpusim's own writers where it has them: what mutation begins with.

Mental model: a seed exercises each kind of field once and is as small as that allows, since mutations of a small file
hit more of it. What a writer of gpusim does not write (another tool's table, a cubin) lies in ``tests/faults/seeds``.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from fat_binaries import archive, container, host_elf
from ncu_rep_files import Launch as ReportedLaunch
from ncu_rep_files import report
from store_examples import example_launch, example_row
from trace_examples import example_trace

from gpusim.execution.chakra_file import written
from gpusim.execution.trace import Node
from gpusim.explore.choose import Choice, save_suite
from gpusim.explore.coverage import Coverage
from gpusim.explore.examples import Examples, Tried
from gpusim.explore.finding import Finding, Witness
from gpusim.explore.property import Outcome
from gpusim.gpus.load import list_gpus, locate
from gpusim.silicon.published import published_folder
from gpusim.silicon.rows import append_rows
from gpusim.store import open_store

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests" / "faults" / "seeds"
_MOST_TRACE_BYTES = 8 << 10


def _written(write: Callable[[Path], object], name: str = "seed") -> bytes:
    """The bytes of the file that ``write`` makes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return path.read_bytes()


def kept(pattern: str) -> list[bytes]:
    """Files of other tools."""
    return [path.read_bytes() for path in sorted(KEPT.glob(pattern))]


def traces() -> list[bytes]:
    """Made by hand, of one chunk and of several, and the smallest recorded ones."""
    made = [
        example_trace(blocks=4, blocks_per_chunk=4, seed=3),
        example_trace(blocks=5, seed=1),
        example_trace(blocks=1, paths=1),
    ]
    recorded = [path.read_bytes() for path in sorted((ROOT / "traces" / "recorded").glob("*.trace"))]
    return [_written(trace.save) for trace in made] + [data for data in recorded if len(data) < _MOST_TRACE_BYTES]


def gpu_files() -> list[bytes]:
    """A GPU that says all, and some that inherit."""
    return [Path(locate(name)).read_bytes() for name in list_gpus()] + [
        b'inherits = "h200"\n[l2]\nhit_latency_ns = { value = 60.0, kind = "guess", source = "a what-if" }\n',
        b'inherits = "h100"\nsm_count = { value = 10, kind = "guess", source = "x" }\n'
        b'[pipes]\nalu = { lanes_per_cycle = 32, kind = "guess", source = "x" }\n',
    ]


def settings() -> list[bytes]:
    """Texts of ``--set``, one a line."""
    return [
        b"l2.hit_latency_ns=60",
        b"sm_count=10\nclock_hz=1e9",
        b"pipes.alu.latency_cycles=5",
        b"sm.shared_carveouts_kib=[0, 8]",
    ]


def rows() -> list[bytes]:
    return [_written(lambda path: append_rows(path, [example_row(i) for i in range(3)]))]


def reports() -> list[bytes]:
    metrics = {
        "gpu__time_duration.sum": 6020,
        "sm__cycles_elapsed.max": 11912.0,
        "device__attribute_display_name": "NVIDIA H200",
    }
    return [report([ReportedLaunch("saxpy", (4, 1, 1), (32, 1, 1), metrics), ReportedLaunch("other")])]


def stores() -> list[bytes]:
    def write(path: Path) -> None:
        with open_store(path) as store:
            with store.new_run("before", command="simulate", arguments=["saxpy", "-o", "x"]) as run:
                run.add_launches([example_launch(), example_launch(1)])
                run.add_measurements([example_row()])
                run.add_document("comparison", {"lines": [{"key": "a", "error_percent": 0.5}]})
            store._engine.dispose()

    return [_written(write, "store.sqlite")]


_FINDING = Finding(
    property="bounds", options={"threshold": 0.1}, gpu="h200", settings=("l2.hit_latency_ns=60",), kernel="saxpy",
    worst=Witness({"n": 4096, "block_threads": 256}, 0.5, "cycles 5, bound 3"), minimal=Witness({"n": 1}, 0.2, "d"),
    rule="n <= 4096", inside=3, misses=1, escapes=0, witnesses_inside=({"n": 2},), explains=2, behaviour="x",
)  # fmt: skip
_COVERAGE = Coverage.of([("opcode", "integer"), ("pattern", "strided")], "saxpy:n=4096 @ h200")


def baselines() -> list[bytes]:
    """What compare --save keeps."""
    lines = [
        {"key": "h200 saxpy:n=4096", "verdict": "SAME", "error_percent": 1.5, "simulated": 2500.0},
        {"key": "h200 chase", "verdict": "SLOWER", "error_percent": 12.5, "simulated": None},
        {"key": "h200 gone", "verdict": "NO-DATA", "error_percent": None, "simulated": None},
    ]
    return [json.dumps({"lines": lines, "comparisons": [{"gpu": "h200", "entries": []}]}).encode()]


def findings() -> list[bytes]:
    return [_written(lambda path: _FINDING.save(path.parent).rename(path))]


def coverages() -> list[bytes]:
    return [_written(_COVERAGE.save)]


def suites() -> list[bytes]:
    choices = [Choice("saxpy:n=4096 @ h200", 3, 75.0), Choice("softmax", 1, 25.0)]
    return [_written(lambda path: save_suite(path, choices, kept=4, bins=5))]


def histograms() -> list[bytes]:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([["workload", "count"], ["saxpy:n=4096,block_threads=256", 10], ["softmax", 2.5]])
    return [out.getvalue().encode()]


def execution_traces() -> list[bytes]:
    """Chakra's, with a node of every kind."""
    nodes = [
        Node(1, "mm", "compute", (), 2e-6, "compute", 1e6, 4096.0), Node(2, "aten::mm", "host", (1,), 1e-6, "host"),
        Node(3, "sum", "collective", (1, 2), None, "collectives of 1", exchange="all_reduce", message_bytes=4096, group="1"),
        Node(4, "out", "send", (3,), None, "sends to 1", message_bytes=64, peer=1, tag=2), Node(5, "in", "receive", (3,), None, "receives from 1", message_bytes=64, peer=1, tag=3),
    ]  # fmt: skip
    return [b"".join(written(nodes)), b"".join(written(nodes[:2]))]


def searches() -> list[bytes]:
    """A file of the runs of a search, which answers the question "q"."""

    def write(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            examples = Examples(Path(folder), "q", "0123abcd", 0)
            for n in (1, 2):
                examples.add(0, Tried("saxpy", {"n": n}, Outcome(0.1 * n, "d", _COVERAGE), 2))
            examples.close()
            (made,) = Path(folder).iterdir()
            made.rename(path)

    return [_written(write)]


def results() -> list[bytes]:
    """A document of simulate --save, kept, since making one takes a simulation."""
    return kept("*.result.json")


def sessions() -> list[bytes]:
    facts = {
        "name": "NVIDIA H200", "uuid_hash": "0" * 16, "driver": "580.1", "capability": [9, 0], "sm_count": 132, "l2_bytes": 1,
        "memory_bytes": 1, "sm_clock_khz": 1, "memory_clock_khz": 1,
    }  # fmt: skip
    lines = [
        {"format": "gpusim-driver-session", "version": 2},
        ["facts", [], facts],
        ["allocate", [64], 4096],
        ["download", [4096, 4], {"bytes": 4, "zlib": "eJxjYGBgAAAABAAB"}],
        ["elapsed_us", [1, 2], 3.5],
        ["throttle_reasons", [], None],
        ["trace", [True], ""],
        ["traced", [1], [[1, 2, 1, 1, 1, 32, 1, 1]]],
    ]
    return ["".join(json.dumps(line) + "\n" for line in lines).encode()]


def packs() -> list[bytes]:
    entry = {
        "sha256": "0" * 64,
        "entry": "k",
        "name": "k",
        "cooperative": False,
        "block": [32, 1, 1],
        "dynamic_shared_bytes": 0,
    }
    index = {
        "format": "gpusim-cubins",
        "version": 1,
        "capability": [9, 0],
        "toolchain": "t",
        "kernels": {"saxpy:n=1#0": entry},
    }
    return [json.dumps(index).encode()]


def model_errors() -> list[bytes]:
    return [(published_folder() / "model_error.json").read_bytes(), b'{"gpus": {"h200": {"stream_read": 2.5}}}']


def manifests() -> list[bytes]:
    return [json.dumps({"tables": [_table()]}).encode()]


def _table() -> dict:
    """A table's entry in a manifest; rows and hash are its reader's to fill in."""
    gpus = {
        "h200": {"sm_clock_mhz": 1980, "fitted": ["chase"]},
        "a40": {"sm_clock_mhz": 1740.5, "fitted": [], "commit": "c"},
    }
    source = {"repository": "r", "commit": "c", "date": "2025-01-01"}
    return {"file": "t.csv", "rows": 0, "sha256": "", "method": "m", "gpus": gpus, "source": source}


def tables() -> list[bytes]:
    return [b"gpu,series,bytes,stride,unit,value\nh200,chase,1024,8,cycles,38.5\na40,chase,2048,,cycles,1\n"]


def recorded_manifests() -> list[bytes]:
    return [json.dumps({"files": [{"file": "rows.jsonl", "sha256": "0" * 64, "rows": 1}]}).encode()]


def disassemblies() -> list[bytes]:
    """Texts as nvdisasm gives them: guard, opcode, operands."""
    rows = [
        ["", "LDG.E.64.CONSTANT", "R2,desc[UR4][R2.64+0x10]"], ["@!P0", "BRA", "0x120"], ["", "HFMA2", "R3,-RZ,RZ,1.5,-2.25"],
        ["", "FADD", "R1,-|R2|,c[0x0][0x210].reuse"], ["PR", "P2R", "R16,RZ,0x20"], ["", "MOV.64", "R2,0x1122334455667788"],
        ["", "LDGSTS", "[R5][R2.64]"], ["", "CALL.REL", "@0x1f0"], ["", "SHFL.DOWN", "PT,R3,R4,0x1,0x1f"],
    ]  # fmt: skip
    return [json.dumps({"0": rows}).encode()]


def fat_binaries() -> list[bytes]:
    """Containers with each packing, alone and in the files that carry them."""
    (code, *_), text = kept("small.cubin"), b".version 8.0\n.target sm_90\n.visible .entry k(.param .u64 p)\n{ ret; }\n"
    plain = container((2, 80, 0, code), (1, 90, 0, text))
    packed = container((2, 90, 0x8000, code), (2, 80, 0x2000, code), (1, 80, 0x2000, text), (1, 90, 0x8000, text))
    program = host_elf({".text": b"x" * 24, ".nv_fatbin": plain + packed, "__nv_relfatbin": plain})
    return [plain, packed, program, archive({"a.o": program, "b.o": host_elf({".nv_fatbin": packed})}), code]


def ptx_texts() -> list[bytes]:
    return [
        b".version 5.0\n.target sm_30\n.address_size 64\n// adds\n.visible .entry add_one( .param .u64 p, .param .align 8 .b8 by[16] )\n{\n"
        b" .reg .b64 %rd<2>; .reg .f32 %f<3>;\n ld.param.u64 %rd1, [p]; ld.param.f32 %f1, [by+4];\n"
        b" ld.global.f32 %f2, [%rd1]; add.f32 %f2, %f2, %f1; st.global.f32 [%rd1], %f2;\n ret;\n}\n",
        b".version 8.0\n.target sm_90a\n.address_size 64\n.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        b".visible .entry _Z1kPi(.param .u64 .ptr .global .align 4 k_0) .maxntid 128, 1, 1\n{\n .shared .align 4 .b8 s[64];\n"
        b" .reg .pred %p<2>; .reg .b32 %r<4>;\n mov.u32 %r1, %tid.x; setp.gt.s32 %p1, %r1, 5;\n @%p1 bra L;\n bar.sync 0;\nL: ret;\n}\n"
        b".visible .entry two()\n{ ret; }\n",
    ]


def sources() -> list[bytes]:
    """CUDA C++ with what a source may name: a template, a header, a line, an assembler's text."""
    return [
        b"#include <cuda_fp16.h>\n#define N 4\ntemplate <typename T>\n__global__ void scale(T *x, T by, int n) {\n"
        b"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  __shared__ T part[N];\n  part[i % N] = x[i];\n  __syncthreads();\n"
        b"  if (i < n) x[i] = part[(i + 1) % N] * by;\n#pragma unroll\n  for (int k = 0; k < N; k++) x[k] += 1;\n"
        b'  asm volatile("bar.sync %0;" :: "n"(1));\n}\n',
        b'__device__ int twice(int x) { return 2 * x; }\n#line 7 "other.cu"\ntemplate <typename T> __global__ void scale(T *x) { *x = twice(*x); }\n',
    ]


def machine_code() -> list[bytes]:
    """Files with one kernel each, of machine code and of PTX, linked and not."""
    (code, *_), text = kept("small.cubin"), b".version 8.0\n.target sm_90\n.visible .entry k(.param .u64 p)\n{ ret; }\n"
    old = text.replace(b"sm_90", b"sm_80")
    parts = host_elf({"__nv_relfatbin": container((1, 80, 0x8000, old))})
    return [code, container((2, 90, 0x8000, code)), container((1, 80, 0x2000, old)), archive({"a.o": parts})]


def launches() -> list[bytes]:
    """Words of a command line."""
    texts = (
        "my.cu:scale<float, 4>:grid=4x2,block=256,arg0=int:1024,arg1=float[1024]=random:7", "a.ptx:k:grid=1,block=32,shared_bytes=0x10",
        "libfoo.so.1:ns::f:grid=2**4,block=1Ki", "saxpy:n=4096,block_threads=256", "float[32,32]=arange", "int:-7", "null",
        "unsigned long long[8]=3", "my.py:case:n=1e6", "bool[4]=true",
    )  # fmt: skip
    return [text.encode() for text in texts]
