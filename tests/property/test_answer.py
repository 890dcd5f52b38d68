"""The first lines of a simulation say time, rates, roof, bound and remedy, and say the same as the counters."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hand_traces import Asm, build, small_gpu

from gpusim import cli
from gpusim.cases.names import general_names
from gpusim.cases.source import open_source
from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.gpus.load import load_gpu
from gpusim.report.answer import answer, answer_text
from gpusim.report.simulation import why_text
from gpusim.report.tables import format_records
from gpusim.trace.record import PipeClass, Program, Trace
from gpusim.why.advice import MOST_PROPOSALS, Advice, Remedy, advise
from gpusim.why.explain import explain

GPU = small_gpu(sm_count=2)


def fused(count: int, blocks: int = 2, threads: int = 1024) -> Result:
    """Warps that issue FFMA only."""
    asm = Asm()
    for _ in range(count):
        asm.op(PipeClass.FMA, 1)
    trace = build(asm.exit(), blocks, threads)
    texts = ("FFMA R0, R1, R2, R3",) * count + ("EXIT",)
    return simulate(Trace(Program(trace.program.instructions, texts), trace.launch, trace.chunk_list), GPU)


def test_rates_are_work_over_time() -> None:
    result = fused(1000)
    found = answer(result)
    (fp32,) = found.arithmetic
    operations = 2 * 32 * 1000 * 64
    assert fp32.name == "FP32" and fp32.per_s * 1e9 == pytest.approx(operations / (result.time_us / 1e6))
    assert fp32.roof * 1e9 == pytest.approx(2 * 32 * 4 * 2 * GPU.clock_hz)  # four sub-cores of two SMs
    assert found.dram.per_s == 0 and found.dram.roof == GPU.dram.peak_bytes_per_ns
    assert found.cycles == result.cycles and found.roof_percent > 90
    assert found.bound_by.startswith("compute: ")


def test_a_launch_far_below_every_roof_is_bound_by_latency() -> None:
    asm = Asm()
    for i in range(40):
        asm.load(lambda b, w, i=i: ((1 << 30) + 65536 * i, 0), barrier=0, wait_mask=1)
    result = simulate(build(asm.exit(wait_mask=1), mask=1), GPU)
    found = answer(result)
    assert found.roof_percent < 60 and found.bound_by.startswith("latency: long_scoreboard, ")


def test_a_launch_that_hardly_lasts_is_bound_by_launching() -> None:
    assert answer(simulate(build(Asm().exit()), GPU)).bound_by.startswith("launch overhead: ")


def test_the_answer_says_what_was_done_about_remedies() -> None:
    found = answer(fused(10))
    remedy = Remedy("r", "a.py:3", "one load in flight", "unroll by 4", "so", 70, 29.6, False)
    lines = answer_text(found, Advice((remedy, replace(remedy, at_most=True, place="")), 2, ())).splitlines()
    where = next(i for i, line in enumerate(lines) if line.startswith("remedy"))
    assert lines[where].endswith("one load in flight at a.py:3: unroll by 4: about -30 %")
    assert lines[where + 1].strip() == "one load in flight: unroll by 4: at most -30 %"
    assert "add --why" in answer_text(found, None)
    assert "do this: not simulated, the run is large; add --why" in answer_text(found, Advice((), 0, ("do this",)))
    assert "none of the 3 tried" in answer_text(found, Advice((), 3, ()))
    assert "none found" in answer_text(found, Advice((), 0, ()))
    assert answer_text(found, None, "md").count("|\n") > 5


def test_text_rounds_to_three_digits_and_keeps_whole_numbers() -> None:
    values = (1.23456, 0.000123456, 123456.7, 1234567, 999.96)
    (*_, line) = format_records([{str(i): value for i, value in enumerate(values)}], "table").splitlines()
    assert line.split() == ["1.23", "0.000123", "123457", "1234567", "1000"]


def shell(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.run(["simulate", "saxpy", "--small", *words]) == 0
    return capsys.readouterr().out


def test_text_answers_first_and_leaves_counters_to_details(capsys: pytest.CaptureFixture[str]) -> None:
    short = shell(capsys)
    names = [line.split("  ")[0] for line in short.splitlines()]
    assert names[:7] == ["kernel", "time", "interval", "cycles", "DRAM", "FP32", "roof"] and "remedy" in names
    assert "smsp__inst_executed.sum" not in short
    full = shell(capsys, "--details")
    assert full.startswith(short.rstrip("\n")) and "smsp__inst_executed.sum" in full and "long_scoreboard" in full
    document = json.loads(shell(capsys, "--format", "json"))
    assert "smsp__inst_executed.sum" in document["counters"] and "why" not in document
    assert document["answer"]["bound_by"] in short and f"{document['cycles']}" in short
    assert "counters" in json.loads(shell(capsys, "--format", "json", "--details"))
    table = shell(capsys, "--format", "csv")
    assert "smsp__inst_executed.sum," in table and 'bound_by,"latency' in table


def test_why_says_parts_and_remedies_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(shell(capsys, "--why", "--format", "json"))
    why = document["why"]
    assert [part["part"] for part in why["parts"]] == ["ramp", "steady state", "tail"]
    assert sum(part["percent"] for part in why["parts"]) == pytest.approx(100)
    assert why["remedies"] and all(one["saves_percent"] >= 2 for one in why["remedies"])


def test_an_explained_run_is_text_for_any_command() -> None:
    trace = build(Asm().op(PipeClass.FMA).exit())
    result = simulate(trace, GPU, samples=True)
    text = why_text(result, explain([trace], GPU, result))
    assert text.startswith("kernel") and "limited most by" in text and "steady state" in text and "made_free" in text


@pytest.mark.nightly
@pytest.mark.parametrize("kernel", list(general_names()))
def test_every_kernel_of_the_suite_gets_an_answer(kernel: str) -> None:
    gpu = load_gpu("h200")
    source = open_source(kernel, gpu, small=True)
    traces = [launch.trace for launch in source.timed]
    result = simulate(traces, gpu, warm=source.warm)
    advice = advise(traces, result, warm=source.warm)
    found = answer(result)
    assert found.roof_percent > 0 and found.bound_by and advice.tried <= MOST_PROPOSALS
    assert all(2 <= remedy.saved_percent < 100 for remedy in advice.remedies)
