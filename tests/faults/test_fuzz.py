"""The fuzzer's own findings stay mended, a little of it runs every time, and it sees what it is there to see.

The examples under ``examples/TARGET`` are inputs that once ended in a traceback, a hang, too much memory or a message
without a file: each the smallest that showed its fault, named after it. ``tools/fuzz.py`` finds more.
"""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from fuzzing import judge, minimise
from fuzzing.engine import reader, run
from fuzzing.targets import TARGETS, Target

from gpusim.errors import GpusimError, UsageError
from gpusim.io.records import as_record, nested_beyond
from gpusim.trace.file import HEADER, read
from gpusim.trace.regular import RegularBlocks

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((Path(__file__).parent / "examples").glob("*/*"))
#: Inputs of each target in a run of the suite: half a second's; nightly each has a minute.
INPUTS = {
    "trace": 80, "gpu": 60, "store": 40, "simulate": 30, "survey": 4, "ncu-rep": 1, "page": 3, "recorded": 60, "result": 80,
    "device-code": 100, "assemble": 20, "cuda-cpp": 3, "machine-code": 60,
}  # fmt: skip
PLENTY = 100


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_once_is_refused_or_taken(path: Path) -> None:
    with reader(replace(TARGETS[path.parent.name], seeds=list)) as judged:
        outcome = judged(path.read_bytes(), check_time=False)
    assert not outcome.fault, outcome


@pytest.mark.parametrize("name", TARGETS)
def test_a_second_of_damaged_files_shows_no_fault(name: str) -> None:
    if name == "ncu-rep":
        pytest.importorskip("ncu_report", reason="NVIDIA's reader of .ncu-rep: pip install 'gpusim[ncu]'")
    report = run(TARGETS[name], seed=1, most_inputs=INPUTS.get(name, PLENTY), check_time=False)
    assert not report.faults, report.faults
    assert len(report.kinds) > 1 or report.inputs < 5  # not one answer to everything


@pytest.mark.nightly
@pytest.mark.parametrize("name", TARGETS)
def test_a_minute_of_damaged_files_shows_no_fault(name: str, tmp_path: Path) -> None:
    seed = str(time.time_ns() % 1_000_000)  # another one each night; what is found says how
    command = [
        sys.executable,
        str(ROOT / "tools" / "fuzz.py"),
        name,
        "--seconds",
        "60",
        "--seed",
        seed,
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "\n".join(path.read_text() for path in tmp_path.glob("*/*.json"))
    assert done.returncode == 0, f"--seed {seed}\n{said}\n{done.stderr[-2000:]}"


@pytest.mark.nightly
def test_a_mutated_trace_stays_inside_the_engines_arrays(tmp_path: Path) -> None:
    """With compiled loops that check every index; their machine code is kept apart from that without the checks."""
    command = [
        sys.executable,
        str(ROOT / "tools" / "fuzz.py"),
        "simulate",
        "--inputs",
        "5000",
        "--plain",
        "--out",
        str(tmp_path),
    ]
    checking = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=checking)
    said = "\n".join(path.read_text() for path in tmp_path.glob("simulate/*.json"))
    assert done.returncode == 0, f"{said}\n{done.stderr[-2000:]}"


def planted(path: Path) -> None:
    """A reader with a fault for each first byte."""
    data = path.read_bytes()
    match data[:1]:
        case b"k":
            {}["lost"]
        case b"t":
            until = time.process_time() + 0.02
            while time.process_time() < until:
                pass
        case b"m":
            with mmap.mmap(-1, 40 << 20) as pages:  # new ones, not what the C library has kept
                pages[:] = b"x" * len(pages)
        case b"l":
            raise UsageError(f"{path}: one line\nand another")
        case b"n":
            raise UsageError("names nothing")
        case b"i":
            raise GpusimError(f"{path}: nobody knows")
        case b"g":
            raise UsageError(f"{path}: line {len(data)} is none")


PLANTED = Target(
    "planted", "", lambda: [b""], lambda data, rng, others: data + rng.choice([b"k", b"g"]), planted, "in.x", 16 << 20
)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"k", "KeyError in test_fuzz.py:planted"),
        (b"t", "takes more than 0.01 s"),
        (b"m", "takes more than 16 MiB"),
        (b"l", "a message that is no line"),
        (b"n", "a message that names no file"),
        (b"i", "an internal error's exit code"),
        (b"g", ""),
        (b"", ""),
    ],
)
def test_each_kind_of_fault_is_seen(data: bytes, fault: str, monkeypatch) -> None:
    if data == b"t":
        monkeypatch.setattr(judge, "MOST_SECONDS", 0.01)
    with reader(PLANTED) as judged:
        found = judged(data).fault
    assert found.startswith(fault) if fault else not found


def test_a_fault_is_reported_once_and_made_small() -> None:
    seen = []
    report = run(PLANTED, seed=0, most_inputs=40, found=lambda fault, data, outcome: seen.append(fault))
    assert report.inputs == 40 and seen == list(report.faults) == ["KeyError in test_fuzz.py:planted"]
    with reader(PLANTED) as judged:
        small = minimise.minimised(b"k\nmany\nlines of it", lambda data: judged(data).fault == seen[0])
    assert small == b"k"


def test_the_same_seed_gives_the_same_inputs() -> None:
    def inputs(seed: int) -> list[bytes]:
        seen: list[bytes] = []
        run(TARGETS["suite"], seed, most_inputs=30, watch=lambda data, count: seen.append(data))
        return seen

    assert inputs(5) == inputs(5) != inputs(6)


def test_a_mutated_trace_keeps_its_hashes(tmp_path: Path) -> None:
    """Else every one of them would end at the first check."""
    target, rng, path, refusals = TARGETS["trace"], random.Random(2), tmp_path / "in.trace", []
    seed = target.seeds()[0]
    for _ in range(60):
        data = target.mutate(seed, rng, [])
        path.write_bytes(data)
        try:
            chunks = read(path)[2]
            for _ in () if isinstance(chunks, RegularBlocks) else chunks:
                pass
        except GpusimError as error:
            refusals.append(str(error))
    assert sum("hash names" in refusal for refusal in refusals) < 6 < len(refusals) < 60
    with zipfile.ZipFile(BytesIO(seed)) as archive:
        assert HEADER in archive.namelist()


@pytest.mark.parametrize("levels", [50, 900, 5000, 100_000])
def test_a_value_of_any_depth_is_shown_in_a_message(levels: int) -> None:
    """A value that the parser just took was too deep for Python's repr of it."""
    value: object = 0
    for _ in range(levels):
        value = [value]
    with pytest.raises(UsageError, match=r"f.json: it should be a whole number, not \[\[\[\[...\]\]\]\]"):
        as_record(int, value, "f.json", UsageError)
    assert nested_beyond(value, levels - 1) and not nested_beyond(value, levels)
