"""Each way of extending gpusim that CONTRIBUTING.md shows works as it is shown there, with no line of gpusim
changed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim import cli
from gpusim.gpus.describe import describe_gpu, diff_gpus

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "tests" / "contributing"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"^```\w+\n(# (\S+).*?\n.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def test_the_guide_shows_every_example_as_it_is() -> None:
    shown = {Path(name).name: text for text, name in BLOCKS if name.startswith("tests/contributing/")}
    assert set(shown) == {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    for name, text in shown.items():
        assert text == (EXAMPLES / name).read_text(), f"CONTRIBUTING.md shows another {name}"


def test_every_file_that_the_guide_names_exists() -> None:
    prose = re.sub(r"^```.*?^```", "", GUIDE, flags=re.MULTILINE | re.DOTALL)
    for name in re.findall(r"`((?:gpusim|tests|tools|docs|traces)/[\w/.-]+?)/?`", prose):
        assert (ROOT / name).exists(), f"CONTRIBUTING.md names {name}"


def entry_points(of: str) -> dict[str, dict[str, str]]:
    """The entry points that the guide shows for the example module ``of``: group -> name -> target."""
    found: dict[str, dict[str, str]] = {}
    for text, name in BLOCKS:
        group = re.search(r'entry-points\."([\w.]+)"', text)
        if name == "pyproject.toml" and group:
            found[group[1]] = dict(re.findall(r'^([\w-]+) = "(\S+)"', text, re.MULTILINE))
    return {group: entries for group, entries in found.items() if any(of in target for target in entries.values())}


@pytest.fixture
def package(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example module ``request.param`` installed as a package of a stranger, with the entry point that the guide
    shows."""
    from fake_distribution import install, on_path

    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "store.sqlite"))
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(EXAMPLES / f"{request.param}.py", site)
    declared = entry_points(request.param)
    assert declared
    install(site, "example", declared)
    with on_path(site):
        yield tmp_path


def test_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    path = EXAMPLES / "h200_slow_memory.toml"
    changed = {ours.key for ours, _ in diff_gpus("h200", path)}
    assert changed == {"title", "dram.peak_bytes_per_ns", "dram.total_bytes"}
    stated = {value.key for value in describe_gpu(path) if value.stated_by == path.stem}
    assert changed <= stated
    assert cli.run(["gpus", "diff", "h200", str(path), "--format", "json"]) == 0
    assert {row["key"] for row in json.loads(capsys.readouterr().out)} == changed


def test_an_architecture() -> None:
    from gpusim.isa import architectures

    sys.path.insert(0, str(EXAMPLES))
    try:
        from architecture_row import SM_95
    finally:
        sys.path.remove(str(EXAMPLES))
    assert (SM_95.name, SM_95.target) == ("sm_95", "sm_95a")
    hopper = architectures.architecture((9, 0))
    assert SM_95.bank == hopper.bank and SM_95.block_shared_bytes > hopper.block_shared_bytes
    assert SM_95 not in architectures.ARCHITECTURES


def test_an_opcode() -> None:
    """In a process of its own: the table of opcodes is everybody's."""
    program = """
from parity_opcode import PARITY
from gpusim.isa.table import TABLE
for opcode in (PARITY, PARITY.on_the_uniform_datapath()):
    assert opcode.mnemonic not in TABLE
    TABLE[opcode.mnemonic] = opcode
from arith_harness import execute, lower
values = [(i * 0x9E3779B1) & 0xFFFFFFFF for i in range(32)]
state = {"R1": values, "UR1": values}
odd = [value.bit_count() % 2 for value in values]
assert execute("PARITY R0, R1", state).word == odd
assert execute("UPARITY UR0, UR1", state).word == odd
assert lower("PARITY.WIDE R0, R1") is None
print(PARITY.coverage_class(()))
"""
    paths = os.pathsep.join(map(str, (ROOT, EXAMPLES, ROOT / "tests" / "support")))
    environment = {**os.environ, "PYTHONPATH": paths}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "bit count\n"


def test_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    from hypothesis import given, settings
    from hypothesis import strategies as st
    from part_traffic import Case, link_traffic, play

    from gpusim.engine.part import Part

    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "timing"))
    from delay_part import DelayPart
    from test_part_contract import (
        check_nothing_early,
        check_nothing_lost,
        check_quiet_means_quiet,
        check_steps_cannot_be_seen,
    )

    @settings(max_examples=20)
    @given(build=link_traffic(), seed=st.integers(0, 2**32 - 1))
    def keeps_its_promises(build, seed):
        def case() -> Case:
            bench = build()
            part: Part = DelayPart(bench.part.minimum_latency_ticks)
            bench.part = part
            return bench

        log = play(case(), seed)
        check_nothing_early(log)
        check_nothing_lost(log)
        check_quiet_means_quiet(log)
        check_steps_cannot_be_seen(play(case()), log)

    keeps_its_promises()


def _double(values):
    i = cuda.grid(1)  # pyright: ignore[reportCallIssue] - numba-cuda's own stub wants another argument
    if i < values.size:
        values[i] *= 2


double: Any = cuda.jit(_double)


@pytest.mark.parametrize("package", ["cubin_front_end"], indirect=True)
def test_a_front_end(package: Path) -> None:
    from cubin_front_end import CubinKernel

    from gpusim.frontend.numba.build import argument_types, build

    built = build(double, argument_types(double, (np.zeros(1, np.float32),)), (9, 0))
    (package / "double.cubin").write_bytes(built.cubin)
    values = np.arange(100, dtype=np.float32)
    nothing, size, item = bytes(8), (100).to_bytes(8, "little"), (4).to_bytes(8, "little")
    array = (nothing, nothing, size, item, values, size, item)  # as Numba flattens one
    kernel = CubinKernel(package / "double.cubin", built.entry_name)
    trace = gpusim.capture(kernel, 4, 32, array, gpu="h200")
    np.testing.assert_array_equal(values, 2 * np.arange(100))
    assert trace.launch.kernel == "double"  # the file's name


@pytest.mark.parametrize("package", ["stopwatch_importer"], indirect=True)
def test_an_importer(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / "run.watch").write_text("!stopwatch\nsaxpy 12.5\n")
    assert cli.run(["runs", "import", str(package / "run.watch"), "--name", "watched"]) == 0
    capsys.readouterr()
    assert cli.run(["runs", "export", "watched", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["kernel"], row["time_us.median"]) == ("saxpy", 12.5)
    (package / "run.watch").write_text("!stopwatch\nsaxpy fast\n")
    assert cli.run(["runs", "import", str(package / "run.watch")]) == 2
    assert "run.watch, line 2: 'fast' is no number" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["occupied_property"], indirect=True)
def test_an_explore_property(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gpusim.explore.property_registry import make_property

    gpu = gpusim.load_gpu("h200")
    shape = {"n": 40_000, "block_threads": 128}
    modest, greedy = (make_property("occupied", gpu, {"least_warps": least}) for least in (0.01, 60.0))
    outcome = modest.judge("saxpy", shape)
    assert not modest.fails(outcome) and "of 0.01 warps" in outcome.detail
    assert greedy.fails(greedy.judge("saxpy", shape))
    assert cli.run(["explore", "--help"]) == 0
    assert "--least-warps" in capsys.readouterr().out
