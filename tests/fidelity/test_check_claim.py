"""`gpusim check-claim` lets honest claims pass and names what each cheating twin leaves out."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from forked_commands import gpusim

from gpusim.claims.finding import Weight
from gpusim.claims.program_calls import CLOCK, ELAPSED, HOST_WAITS, LAUNCH, RECORD, STREAM_WAITS, Mark, ProgramCalls
from gpusim.claims.windows import window_findings
from gpusim.cli import run

TWINS = str(Path(__file__).parents[1] / "support" / "claim_twins.py")


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict]:
    code = run(["check-claim", *words, "--format", "json"])
    out, err = capsys.readouterr()
    assert out, err
    return code, json.loads(out)


def kinds(found: dict, *weights: Weight) -> set[str]:
    return {each["kind"] for each in found["findings"] if each["weight"] in weights}


@pytest.mark.parametrize(
    ("entry", "options"),
    [
        ("honest", ("--reference", f"{TWINS}:expected")),
        ("dot", ("--reference", f"{TWINS}:expected_dot")),
        ("gathers", ()),
        ("fills", ()),
    ],
)
def test_an_honest_kernel_passes_whatever_it_is_given(capsys, entry: str, options: tuple[str, ...]) -> None:
    code, found = check(capsys, f"{TWINS}:{entry}", "--time-us", "1000", "--strict", *options)
    assert (code, found["verdict"]) == (0, "PLAUSIBLE") and "slower than predicted" in found["reason"], found
    assert not kinds(found, Weight.WRONG, Weight.INVALID, Weight.SUSPECT)
    assert found["checked_against"] == (options[1] if options else "the case's own check")


@pytest.mark.parametrize(
    ("entry", "options", "code", "kind"),
    [
        ("nothing", (), 1, "writes-nothing"),
        ("constant", (), 1, "constant"),
        ("constant", ("--reference", f"{TWINS}:expected"), 6, "wrong"),
        ("half_of_it", ("--reference", f"{TWINS}:expected"), 6, "not-written"),
        ("one_input", (), 4, "not-touched"),
        ("one_input", ("--reference", f"{TWINS}:expected_in_place"), 6, "wrong"),
        ("flagged", (), 1, "remembers"),
        ("clears", ("--reference", f"{TWINS}:expected_in_place"), 1, "modifies-input"),
        ("half_dot", ("--reference", f"{TWINS}:expected_dot"), 6, "precision"),
        ("half_dot", ("--against", f"{TWINS}:dot"), 6, "precision"),
        ("prepared", (), 4, "not-timed"),
        ("kept_by_the_host", (), 1, "remembers"),
    ],
)
def test_a_cheating_twin_is_caught_and_named(
    capsys, entry: str, options: tuple[str, ...], code: int, kind: str
) -> None:
    got, found = check(capsys, f"{TWINS}:{entry}", "--time-us", "30", "--strict", *options)
    assert kind in kinds(found, Weight.WRONG, Weight.INVALID, Weight.SUSPECT), found["findings"]
    assert got == code, found


def test_precision_is_called_by_its_format_and_a_stated_tolerance_decides(capsys) -> None:
    words = (f"{TWINS}:half_dot", "--time-us", "30", "--reference", f"{TWINS}:expected_dot")
    _, found = check(capsys, *words)
    message = next(each["message"] for each in found["findings"] if each["kind"] == "precision")
    assert "FP16" in message and "HFMA2" in message
    code, found = check(capsys, *words, "--tolerance", "0.05")
    assert code == 0 and found["verdict"] == "PLAUSIBLE"


def test_a_time_below_a_bound_is_impossible_with_its_arithmetic(capsys) -> None:
    code, found = check(
        capsys, "saxpy:n=65536", "--time-us", "0.1", "--cache", "cold", "--set", "dram.peak_bytes_per_ns=100"
    )
    assert (code, found["verdict"]) == (1, "IMPOSSIBLE")
    bound = found["bounds"][0]
    assert bound["unit"] == "dram" and bound["least_us"] == pytest.approx(2 * 65536 * 4 / 100e3)
    assert "524,288 bytes that are read and never written / 100 GB/s" in found["reason"]
    code, found = check(capsys, "saxpy:n=65536", "--time-us", "0.75", "--strict")
    assert (code, found["verdict"]) == (4, "IMPLAUSIBLE"), "its data may be in L2, and no bound forbids it"


def calls(*marks: Mark, apart: set[int] = frozenset()) -> ProgramCalls:
    return ProgramCalls(list(marks), set(apart))


def events(*inner: Mark, stream: int = 0) -> tuple[Mark, ...]:
    return (
        Mark(RECORD, stream, 1),
        *inner,
        Mark(RECORD, stream, 2),
        Mark(HOST_WAITS, None, 2),
        Mark(ELAPSED, None, 2, 1),
    )


@pytest.mark.parametrize(
    ("marks", "apart", "kind"),
    [
        (events(Mark(LAUNCH, 0)), (), ""),
        (events(Mark(LAUNCH, 5)), (), ""),  # the default stream waits for blocking ones
        (events(Mark(LAUNCH, 5)), (5,), "not-waited-for"),
        (events(Mark(LAUNCH, 5), stream=6), (), "not-waited-for"),
        (events(Mark(LAUNCH, 5), Mark(RECORD, 5, 3), Mark(STREAM_WAITS, 6, 3), stream=6), (5, 6), ""),
        (events(Mark(RECORD, 5, 3), Mark(LAUNCH, 5), Mark(STREAM_WAITS, 6, 3), stream=6), (5, 6), "not-waited-for"),
        (events(Mark(LAUNCH, 5), Mark(HOST_WAITS, 5), stream=6), (5, 6), ""),
        (events(Mark(LAUNCH, 5), Mark(HOST_WAITS, 6), stream=6), (5, 6), "not-waited-for"),
        ((Mark(LAUNCH, 0), *events()), (), "nothing-timed"),
        ((Mark(CLOCK), Mark(LAUNCH, 0), Mark(HOST_WAITS), Mark(CLOCK)), (), ""),
        ((Mark(CLOCK), Mark(LAUNCH, 0), Mark(CLOCK), Mark(HOST_WAITS)), (), "not-waited-for"),
        ((Mark(CLOCK), Mark(HOST_WAITS), Mark(LAUNCH, 0), Mark(CLOCK)), (), "not-waited-for"),
        ((Mark(CLOCK), Mark(LAUNCH, 0), Mark(HOST_WAITS), Mark(CLOCK), Mark(CLOCK), Mark(CLOCK)), (), "empty-windows"),
        ((Mark(LAUNCH, 0),), (), "no-window"),
    ],
)  # fmt: skip
def test_a_window_holds_what_its_end_waits_for(marks: tuple[Mark, ...], apart: tuple[int, ...], kind: str) -> None:
    assert [each.kind for each in window_findings(calls(*marks, apart=set(apart)))] == ([kind] if kind else [])


PROGRAM = """
import time
import numpy as np
from numba import cuda

@cuda.jit("void(float32[:], float32[:], float32)")
def scale(x, y, a):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i]

x, y = cuda.to_device(np.ones(1024, np.float32)), cuda.device_array(1024, np.float32)
stream, other = cuda.stream(), cuda.stream()
start, end = cuda.event(), cuda.event()
for _ in range(2):
    start.record({first})
    scale[4, 256, {second}](x, y, 2)
    end.record({first})
    end.synchronize()
    print("us", 1e3 * start.elapsed_time(end))
    began = time.perf_counter()
    scale[4, 256](x, y, 2)
    {waits}
    print("host", time.perf_counter() - began)
"""


@pytest.mark.parametrize(
    ("first", "second", "waits", "message"),
    [
        ("stream", "stream", "cuda.synchronize()", ""),
        pytest.param("stream", "other", "cuda.synchronize()", "in 2 of 4 timed windows 2", marks=pytest.mark.nightly),
        pytest.param("stream", "stream", "pass", "in 2 of 4 timed windows 2", marks=pytest.mark.nightly),
        ("stream", "other", "pass", "in 4 of 4 timed windows 4"),
    ],
)
def test_a_program_is_run_and_its_windows_looked_at(tmp_path: Path, first, second, waits, message) -> None:
    (tmp_path / "bench.py").write_text(PROGRAM.format(first=first, second=second, waits=waits))
    ran = gpusim("check-claim", "--program", "bench.py", "--time-us", "2", "--format", "json", cwd=tmp_path)
    found = json.loads(ran.stdout)
    assert (ran.returncode, found["verdict"]) == ((1, "INVALID") if message else (0, "PLAUSIBLE")), ran.stderr
    assert message in found["reason"] and "us" in ran.stderr


def test_recorded_traces_are_held_against_bounds(tmp_path: Path, capsys) -> None:
    assert run(["capture", "saxpy:n=4096", "-o", str(tmp_path / "one.trace")]) == 0
    capsys.readouterr()
    code, found = check(capsys, str(tmp_path / "one.trace"), "--time-us", "0.01")
    assert (code, found["verdict"]) == (1, "IMPOSSIBLE")
    assert check(capsys, str(tmp_path), "--time-us", "1.5")[0] == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("saxpy", "--time-us", "0"), 2, "--time-us"),
        (("saxpy", "--time-us", "nan"), 2, "not a finite number"),
        (("saxpi", "--time-us", "1"), 2, "saxpi"),
        (("saxpy", "--time-us", "1", "--gpu", "h2000"), 5, "h2000"),
        (("saxpy", "--time-us", "1", "--program"), 2, "there is no program saxpy"),
        (("saxpy", "--time-us", "1", "--reference", "none.py:f"), 2, "none.py"),
        ((f"{TWINS}:honest", "--time-us", "1", "--against", "gelu"), 2, "same data"),
        ((f"{TWINS}:honest", "--time-us", "1", "--reference", f"{TWINS}:honest"), 2, "Error"),
    ],
)
def test_a_claim_that_cannot_be_checked_is_refused_in_a_line(capsys, words, code: int, said: str) -> None:
    assert run(["check-claim", *words]) == code
    err = capsys.readouterr().err.strip().splitlines()
    assert said in err[-1] and err[-1].startswith(("error:", "Error:"))


@pytest.mark.nightly
def test_the_program_that_the_page_shows_is_found_not_to_wait(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "check-claim.md").read_text()
    program = next(text for text in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "bench.py" in text)
    (tmp_path / "bench.py").write_text(program)
    (command,) = re.findall(r"^```console\n(.*?)^```", page, re.M | re.S)
    ran = gpusim(*shlex.split(command, comments=True)[1:], cwd=tmp_path)
    assert ran.returncode == 1 and "does not wait for" in ran.stdout
