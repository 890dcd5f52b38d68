"""Reported regressions of toolchains and kernel libraries, reproduced in kind by kernels of our own: what `gpusim
bisect` says of each.

Mental model: each report is a class (a name that steers the assembler, constants that fill the register file, checks
left in, work of the host); a small repository, or two assemblers, holds an instance of the class made here, and bisect
has to find its step and name the cause. The reports' own kernels and figures are not used.

    python tools/reported_regressions.py            # all, as the table of docs/validation/reported-regressions.md
    python tools/reported_regressions.py name ndebug
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from gpusim.cli import run
from gpusim.report.tables import format_records

#: 48 live values where the launch bounds allow 32 registers: the assembler has to choose what it spills.
SPILLING = """
extern "C" __global__ void __launch_bounds__(1024, 2) NAME(float *x, int n) {
  float v[48];
  for (int k = 0; k < 48; ++k) v[k] = x[(threadIdx.x + k * 17) % n];
  for (int r = 0; r < 8; ++r)
    for (int k = 0; k < 48; ++k) v[k] = v[k] * v[(k * 7 + 3) % 48] + v[(k + 11) % 48];
  float s = 0;
  for (int k = 0; k < 48; ++k) s += v[k];
  x[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
"""
#: Each tile's descriptor a value of its own that lives through the loop, or made from one base where it is used; the
#: former on sm_90 and later alone. (ptxas folds what is only a constant of the source into its users, so the values
#: come from memory here.)
DESCRIPTORS = """
__device__ __forceinline__ unsigned long long mix(unsigned long long sum, unsigned long long word) {
  return (sum ^ word) + (sum >> 1);
}
extern "C" __global__ void __launch_bounds__(1024, 1) tiles(unsigned long long *out, const unsigned long long *table, int rounds) {
  unsigned long long sum = threadIdx.x;
#if __CUDA_ARCH__ >= 900 && FOLDED
  unsigned long long word[60];
#pragma unroll
  for (int k = 0; k < 60; ++k) asm volatile("ld.global.u64 %0, [%1];" : "=l"(word[k]) : "l"(table + k));
  for (int r = 0; r < rounds; ++r)
#pragma unroll
    for (int k = 0; k < 60; ++k) sum = mix(sum, word[k]);
#else
  const unsigned long long base = table[0];
  for (int r = 0; r < rounds; ++r)
#pragma unroll
    for (int k = 0; k < 60; ++k) sum = mix(sum, base + 8ull * k);
#endif
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
#: A pipeline whose state is checked at each stage unless NDEBUG is defined.
CHECKED = """
#ifdef NDEBUG
#define CHECK(condition)
#else
#define CHECK(condition) do { if (!(condition)) { out[0] = -1; __trap(); } } while (0)
#endif
extern "C" __global__ void pipeline(float *out, const float *in, const int *stages, int n) {
  __shared__ float stage[4][128];
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    int at = stages[k & 3];
    CHECK(at >= 0 && at < 4);
    CHECK(blockDim.x == 128);
    stage[at][threadIdx.x] = in[k * 128 + threadIdx.x];
    __syncthreads();
    CHECK(stage[at][threadIdx.x] == stage[at][threadIdx.x]);
    sum += stage[at][127 - threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
"""
CASE = '''
import numpy as np
import gpusim

SOURCE = """{source}"""

def case():
{body}
'''
SPILLING_BODY = """    return gpusim.cuda_cpp(SOURCE, "{name}"), 4, 1024, (np.ones(4096, np.float32), 1024)"""
TILES_BODY = """    table = 0x4000004000010000 + 8 * np.arange(60, dtype=np.uint64)
    return gpusim.cuda_cpp(SOURCE, "tiles", ["-DFOLDED={folded}"]), 4, 1024, (np.zeros(4096, np.uint64), table, 16)"""
PIPELINE_BODY = """    stages = np.arange(4, dtype=np.int32)
    arrays = np.zeros(128, np.float32), np.ones(16 * 128, np.float32), stages
    return gpusim.cuda_cpp(SOURCE, "pipeline", {options}), 1, 128, (*arrays, 16)"""
HOST_BODY = """    for _ in range({rounds}):
        arguments = {{f"argument_{{number}}": number for number in range(50)}}
        assert len(arguments) == 50
    return gpusim.cuda_cpp(SOURCE, "{name}"), 1, 128, (np.ones(1024, np.float32), 1024)"""


@dataclass(frozen=True)
class Said:
    """What bisect said: its exit ``code`` and ``document``."""

    code: int
    document: dict

    @property
    def text(self) -> str:
        """Its sentences."""
        steps = [step["sentence"] for step in self.document["steps"]]
        return " ".join([self.document["sentence"], *steps])


@dataclass(frozen=True)
class Report:
    """``report``: where the class was reported; ``ours``: what reproduces it; ``bisected``: makes the material in a
    folder and bisects it."""

    report: str
    ours: str
    bisected: Callable[[Path], Said]


def bisect(*words: str) -> Said:
    """``gpusim bisect`` in this process."""
    out = StringIO()
    with redirect_stdout(out):
        code = run(["bisect", *words, "--format", "json"])
    if not out.getvalue():
        raise SystemExit(f"gpusim bisect {' '.join(words)} ended with {code}")
    return Said(code, json.loads(out.getvalue()))


def history(folder: Path, source: str, bodies: Sequence[str]) -> Path:
    """A repository with a commit for each of ``bodies``, the case function of ``k.py``."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for number, body in enumerate(bodies):
        (folder / "k.py").write_text(CASE.format(source=source, body=body))
        (folder / "number").write_text(f"{number}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"commit {number}")
    return folder


def git(folder: Path, *words: str) -> None:
    """Run git with an identity of its own."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def over_commits(folder: Path, source: str, bodies: Sequence[str], *words: str) -> Said:
    """Bisect the history of ``bodies`` from its first commit to its last."""
    repository = history(folder, source, bodies)
    ends = ("--good", f"HEAD~{len(bodies) - 1}", "--bad", "HEAD")
    return bisect("k.py:case", "--repo", str(repository), *ends, *words)


def renamed(folder: Path) -> Said:
    """Nothing changes but the kernel's name."""
    plain, named = "kernel_plain", "kernel_cutlass_plain"
    source = SPILLING.replace("NAME", plain)
    bodies = [SPILLING_BODY.format(name=plain)] * 2
    other = [
        f"    named = SOURCE.replace('{plain}', '{named}')\n"
        + SPILLING_BODY.format(name=named).replace("SOURCE", "named")
    ]
    return over_commits(folder / "name", source, bodies + other)


def folded(folder: Path, gpu: str) -> Said:
    """Descriptors that were made from a base become values of their own."""
    bodies = [TILES_BODY.format(folded=value) for value in (0, 0, 1)]
    return over_commits(folder / f"folded-{gpu}", DESCRIPTORS, bodies, "--gpu", gpu)


def unchecked(folder: Path) -> Said:
    """-DNDEBUG is lost."""
    bodies = [PIPELINE_BODY.format(options=options) for options in (["-DNDEBUG"], ["-DNDEBUG"], [])]
    return over_commits(folder / "ndebug", CHECKED, bodies)


def host(folder: Path) -> Said:
    """The host's code takes longer for each launch; the kernel is the same."""
    bodies = [HOST_BODY.format(rounds=rounds, name="kernel_plain") for rounds in (1, 1, 10_000)]
    return over_commits(folder / "host", SPILLING.replace("NAME", "kernel_plain"), bodies)


def assemblers(folder: Path) -> Said:
    """One source, the assemblers of CUDA 12.8 and 12.9, by compilation alone; pip installs them."""
    folder.mkdir(exist_ok=True)
    file = folder / "spilling.cu"
    file.write_text(SPILLING.replace("NAME", "spilling"))
    request = f"{file}:spilling:grid=1,block=128,arg0=float[1024]=1,arg1=int:1024"
    return bisect(
        request, "--gpu", "b200", "--toolchain", "ptxas=12.8.93,12.9.86,13.0.88", "--install", "--compile-only"
    )


REPORTS = {
    "name": Report(
        "a kernel's name changes register allocation (CUTLASS issue 3389)", "one kernel, renamed so that its name holds `cutlass`",
        renamed,
    ),
    "ptxas": Report(
        "ptxas 12.9 and 13.1 make other code of one kernel (CUTLASS issues 2981, 2408)",
        "48 live values under launch bounds of 32 registers, for sm_100, by the assemblers of 12.8, 12.9 and 13.0", assemblers,
    ),
    "constants": Report(
        "descriptors folded into constants fill the register file on one architecture (facebookexperimental/triton issue 1129, first cause)",
        "60 descriptors of 64 bits that live through a loop, from sm_90 on, in place of one base; h200", lambda folder: folded(folder, "h200"),
    ),
    "constants-other": Report(
        "the same, on a GPU that it does not concern", "the same commits, a100_80gb", lambda folder: folded(folder, "a100_80gb")
    ),
    "host": Report(
        "work of the host at each launch (facebookexperimental/triton issue 1129, second cause)",
        "a launch whose host code makes 10,000 dictionaries", host,
    ),
    "ndebug": Report("run-time checks without -DNDEBUG (FlashInfer PR 998)", "a pipeline whose stages are checked unless NDEBUG is defined", unchecked),
}  # fmt: skip


def main(names: Sequence[str]) -> None:
    """Bisect each of ``names``, or all, and print the table."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="gpusim-reports-") as folder:
        os.environ["GPUSIM_STORE"] = str(Path(folder, "store.db"))
        for name in names or REPORTS:
            said = REPORTS[name].bisected(Path(folder))
            rows.append({"reported": REPORTS[name].report, "ours": REPORTS[name].ours, "bisect": said.document["status"],
                         "said": said.text.replace("|", "\\|")})  # fmt: skip
    print(format_records(rows, "md"))


if __name__ == "__main__":
    main(sys.argv[1:])
