"""What a search of configurations keeps in a file: found again while all that decided it is as it was, and nothing else
spoilt."""

from __future__ import annotations

import functools
import resource
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim
from gpusim.errors import NoDataError, UsageError
from gpusim.search import kept as kept_predictions
from gpusim.search.found import Tuned
from gpusim.search.identity import identity_of
from gpusim.search.kept import KeptPredictions, Predicted, files_of

ROW = Predicted({"block": 64}, 1.5, "exact")
SPACE = {"block": [64]}


def test_what_a_kill_has_left_of_a_line_is_cut_off_and_the_next_line_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    KeptPredictions(path, "case").add(ROW, set())
    whole = path.read_bytes()
    for cut in (1, 5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole + whole[:cut])
        kept = KeptPredictions(path, "case")
        assert kept.find(ROW.parameters, "exact") == ROW and path.read_bytes() == whole
        kept.add(Predicted({"block": 128}, 2.5, "exact"), set())
        again = KeptPredictions(path, "case")
        assert again.find({"block": 128}, "exact") == Predicted({"block": 128}, 2.5, "exact")


@pytest.mark.parametrize("text", [b"bring milk", b"bring milk\n", b'{"a": 1}\n', b"\xff\xfe" * 9])
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(text)
    with pytest.raises(UsageError, match="notes.txt, line 1: no kept prediction"):
        KeptPredictions(path, "case")
    assert path.read_bytes() == text


def test_places_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="directory"):
        KeptPredictions(tmp_path, "case")
    with pytest.raises(UsageError, match=r"none/kept.jsonl: No such file"):
        KeptPredictions(tmp_path / "none" / "kept.jsonl", "case").add(ROW, set())


def test_another_version_of_gpusim_predicts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.jsonl"
    KeptPredictions(path, "case").add(ROW, set())
    monkeypatch.setattr(kept_predictions, "package_digest", lambda: "another")
    assert KeptPredictions(path, "case").find(ROW.parameters, "exact") is None


@pytest.fixture
def counted(tmp_path: Path) -> tuple[Callable[..., Any], deque[int]]:
    """A case of ``scale.cu``, which includes ``factor.h``, and how often it was made."""
    (tmp_path / "factor.h").write_text("#define ROUNDS 1\n")
    (tmp_path / "scale.cu").write_text(
        '#include "factor.h"\n__global__ void scale(float *x) { for (int i = 0; i < ROUNDS; i++) x[threadIdx.x] = x[threadIdx.x] * 2.5f + 1; }\n'
    )
    made: deque[int] = deque()  # what a list holds that a case closes over decides what the case makes

    def case(block: int) -> Any:
        made.append(block)
        return gpusim.cuda_cpp(tmp_path / "scale.cu", "scale"), 1, block, (np.ones(block, np.float32),)

    return case, made


def test_a_kernel_whose_source_has_changed_is_predicted_again(
    tmp_path: Path, counted: tuple[Callable[..., Any], deque[int]]
) -> None:
    case, made = counted
    kept = tmp_path / "kept.jsonl"
    first = gpusim.tune(case, SPACE, gpu="a100_80gb", keep=kept).best.time_us
    assert gpusim.tune(case, SPACE, gpu="a100_80gb", keep=kept).best.time_us == first and len(made) == 1
    (tmp_path / "factor.h").write_text("#define ROUNDS 9999\n")
    second = gpusim.tune(case, SPACE, gpu="a100_80gb", keep=kept).best.time_us
    assert first is not None and second is not None and second > 1.5 * first and len(made) == 2


def test_what_did_not_compile_is_tried_again(tmp_path: Path, counted: tuple[Callable[..., Any], deque[int]]) -> None:
    case, _ = counted
    (tmp_path / "factor.h").write_text("#define ROUNDS no_number\n")
    with pytest.raises(NoDataError, match="no_number"):
        gpusim.tune(case, SPACE, gpu="a100_80gb", keep=tmp_path / "kept.jsonl")
    (tmp_path / "factor.h").write_text("#define ROUNDS 1\n")
    assert gpusim.tune(case, SPACE, gpu="a100_80gb", keep=tmp_path / "kept.jsonl").best.time_us


def test_a_header_in_a_folder_of_headers_counts_too(tmp_path: Path) -> None:
    (tmp_path / "headers").mkdir()
    (tmp_path / "case.py").write_text(
        """
import numpy as np
import gpusim

TEXT = '''#include "rounds.h"
#include <times.h>
__global__ void scale(float *x) {
    for (int i = 0; i < ROUNDS * TIMES; i++) x[threadIdx.x] = x[threadIdx.x] * 2.5f + 1;
}
'''

def case(block):
    print("made")
    return gpusim.cuda_cpp(TEXT, "scale", headers=["headers"]), 1, block, (np.ones(block, np.float32),)

tuned = gpusim.tune(case, {"block": [64]}, gpu="a100_80gb", keep="kept.jsonl")
print(tuned.best.time_us)
"""
    )
    found: list[tuple[int, float]] = []
    for rounds, times in ((1, 1), (1, 1), (500, 1), (1, 500)):
        (tmp_path / "headers" / "rounds.h").write_text(f"#define ROUNDS {rounds}\n")
        (tmp_path / "headers" / "times.h").write_text(f"#define TIMES {times}\n")
        run = subprocess.run([sys.executable, "case.py"], cwd=tmp_path, capture_output=True, text=True)
        *made, time_us = run.stdout.split()
        found.append((len(made), float(time_us)))
    assert [made for made, _ in found] == [1, 0, 1, 1]
    assert found[0][1] == found[1][1] < found[2][1] / 1.5
    assert found[2][1] == found[3][1]


def test_files_of_ptx_and_machine_code_count_where_they_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "scale.ptx", tmp_path / "elsewhere"
    path.write_text(".version 8.0\n")
    other.mkdir()
    monkeypatch.chdir(other)
    kernel = gpusim.ptx(path, "scale")
    assert files_of(kernel, tmp_path) == {str(path)} and files_of(kernel, other) is None
    assert files_of(gpusim.ptx(".version 8.0\n", "scale"), other) == set()
    path.with_suffix(".cubin").write_bytes(b"\x7fELF")
    assert files_of(gpusim.cubin(path.with_suffix(".cubin")), tmp_path) == {str(path.with_suffix(".cubin"))}
    linked = gpusim.cuda_cpp("__global__ void scale() {}\n", "scale", link=[path])
    assert files_of(linked, tmp_path) == {str(path)} and files_of(linked, other) is None
    assert files_of(len, tmp_path) == set()


def test_a_cache_file_for_which_the_disk_has_no_room_is_as_it_was(tmp_path: Path) -> None:
    tuned = Tuned("a100_80gb", "scale", tuple(replace(ROW, parameters={"block": n}) for n in range(999)), ())
    path = tmp_path / "cache.json"
    tuned.write_cache(path)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match=r"cache\.json"):
            tuned.write_cache(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


ROUNDS = 4
DOUBLED = "__global__ void scale(float *x) { for (int i = 0; i < ROUNDS; i++) x[threadIdx.x] += 1; }"


def other_case(block: int, n: int = 64) -> Any:
    return gpusim.cuda_cpp(DOUBLED, "scale", [f"-DROUNDS={ROUNDS}"]), n // block, block, (np.ones(n, np.float32),)


def same_case(block: int, n: int = 64) -> Any:
    return gpusim.cuda_cpp(DOUBLED, "scale", [f"-DROUNDS={ROUNDS}"]), n // block, block, (np.ones(n, np.float32),)


def test_what_a_case_finds_rather_than_is_given_decides_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(rounds: int) -> Callable[..., Any]:
        def case(block: int) -> Any:
            return gpusim.cuda_cpp(DOUBLED, "scale", [f"-DROUNDS={rounds}"]), 1, block, (np.ones(block, np.float32),)

        return case

    assert identity_of(closed(1)) == identity_of(closed(1)) != identity_of(closed(2))
    assert identity_of(other_case) != identity_of(same_case)  # of one file, and alike but for the name
    partly = functools.partial(other_case, n=64)
    assert identity_of(partly) == identity_of(functools.partial(other_case, n=64))
    assert identity_of(partly) != identity_of(functools.partial(other_case, n=128))
    before = identity_of(other_case)
    monkeypatch.setattr(sys.modules[__name__], "ROUNDS", 5)  # as a script that takes it from its command line
    after = identity_of(other_case)
    assert before != after
    monkeypatch.setattr(sys.modules[__name__], "DOUBLED", DOUBLED + "\n")  # as a notebook's cell that was run again
    assert identity_of(other_case) != after


def test_two_cases_of_one_file_do_not_find_each_others_predictions(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    few = gpusim.tune(functools.partial(other_case, n=64), SPACE, gpu="a100_80gb", keep=kept).best.time_us
    many = gpusim.tune(functools.partial(other_case, n=64 << 10), SPACE, gpu="a100_80gb", keep=kept).best.time_us
    assert few is not None and many is not None and few < many
