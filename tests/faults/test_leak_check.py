"""Does ``gpusim run --leak-check full`` name what a program leaves allocated, and nothing else?"""

from __future__ import annotations

from pathlib import Path

from forked_commands import gpusim as forked

PROGRAM = """\
import numpy as np
from cuda.bindings import driver
from numba import cuda


def work():
    values = cuda.to_device(np.ones(100, np.float32))  # freed late, by Numba
    return values.copy_to_host().sum()


work()
_, freed = driver.cuMemAlloc(64)
driver.cuMemFree(freed)
{more}
"""
LEAKS = "for _ in range(3):\n    driver.cuMemAlloc(1000)\n"


def run(folder: Path, more: str) -> tuple[int, str]:
    script = folder / "program.py"
    script.write_text(PROGRAM.format(more=more))
    done = forked("run", "--leak-check", "full", script, cwd=Path.cwd())
    return done.returncode, done.stderr


def test_what_is_left_is_listed_with_the_line_that_allocated_it(tmp_path: Path) -> None:
    code, err = run(tmp_path, LEAKS)
    assert code == 1 and "3000 bytes of device memory leaked in 3 allocations" in err
    row = next(line for line in err.splitlines() if "an allocation of 1000 bytes" in line)
    assert row.split()[:2] == ["3000", "3"] and "program.py:15)" in row and "400 bytes" not in err


def test_a_program_that_frees_all_ends_as_it_would(tmp_path: Path) -> None:
    code, err = run(tmp_path, "")
    assert code == 0 and "0 bytes of device memory leaked in 0 allocations" in err
    assert run(tmp_path, LEAKS + "raise SystemExit(7)")[0] == 7


HEAP = '''\
import sys
import numpy as np
from numba import cuda, types

SOURCE = cuda.CUSource("""
extern "C" __device__ int take(long long *block, int bytes) { *block = (long long)malloc(bytes); return 0; }
extern "C" __device__ int give(int *result, long long block) { free((void *)block); *result = 0; return 0; }
""", name="heap.cu")
take = cuda.declare_device("take", types.int64(types.int32), link=SOURCE)
give = cuda.declare_device("give", types.int32(types.int64), link=SOURCE)


@cuda.jit
def takes(kept):
    kept[cuda.grid(1)] = take(16)


@cuda.jit
def gives(kept):
    give(kept[cuda.grid(1)])


kept = cuda.to_device(np.zeros(32, np.int64))
takes[1, 32](kept)
gives[1, int(sys.argv[1])](kept)
'''


def test_what_a_later_kernel_frees_is_no_leak_of_the_device_heap(tmp_path: Path) -> None:
    script = tmp_path / "heap.py"
    script.write_text(HEAP)
    some = forked("run", "--check", "leak", script, "20", cwd=Path.cwd())
    assert some.returncode == 1 and "Leaked 192 bytes of the device heap" in some.stderr, some.stderr
    assert some.stderr.count("Leaked") == 1
