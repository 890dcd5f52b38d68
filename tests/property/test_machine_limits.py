"""A machine at the limit of any key of its GPU file is simulated to the end, or refused by name.

The limits (gpusim.gpus.limits) are there so that no value overruns an array behind it and none makes one call of the
engine run for minutes. At night the same runs under NUMBA_BOUNDSCHECK=1 over drawn machines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.engine.gpu import simulate
from gpusim.errors import GpusimError, SpecError
from gpusim.gpus.limits import limits_of
from gpusim.gpus.load import known_keys, load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.trace.record import Trace

ROOT = Path(__file__).parents[2]
#: Shared memory, atomics, loads and stores in few blocks.
TRACE = ROOT / "traces" / "recorded" / "histogram-h200.trace"
NOT_NUMBERS = ("title", "generation", "capability", "sm.shared_carveouts_kib")
KEYS = [key for key, default in known_keys().items() if key not in NOT_NUMBERS and not isinstance(default, bool)]
#: At night: the other rows of the table that each pipe has one in, and what the engine does not read, a node's links
#: and a board's power.
AT_NIGHT = [
    key
    for key in KEYS
    if key.startswith(("node.", "board.")) or (key.startswith("pipes.") and key.split(".")[1] not in ("alu", "lsu"))
]


@cache
def trace() -> Trace:
    return Trace.load(TRACE)


def outcome(settings_: list[str]) -> str:
    try:
        spec = override_gpu(load_gpu("h200"), settings_)
    except SpecError as error:
        assert "\n" not in str(error)
        return "refused"
    try:
        assert simulate(trace(), spec, threads=1).cycles > 0
    except GpusimError:
        return "refused"
    return "simulated"


def test_what_is_beyond_a_limit_is_refused() -> None:
    assert [key for key in KEYS if outcome([f"{key}={2 * int(limits_of(key).most) + 1}"]) != "refused"] == []


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=pytest.mark.nightly if key in AT_NIGHT else ()) for key in KEYS]
)
def test_a_machine_at_a_limit_is_simulated_or_refused(key: str) -> None:
    limits = limits_of(key)
    for value in (limits.most, max(limits.least, 1 if limits.positive else 0)):
        outcome([f"{key}={int(value)}" if value == int(value) else f"{key}={value}"])


def setting(data: st.DataObject, key: str) -> str:
    limits = limits_of(key)
    value = data.draw(st.sampled_from((1, 2, 3, 7, 16, 100, 1000, int(limits.most), int(limits.most) // 2)), label=key)
    return f"{key}={min(value, int(limits.most)) or 1}"


@pytest.fixture(scope="module")
def checking(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process whose compiled loops check every index. Its machine code is kept apart: Numba would
    take what was compiled without the checks."""
    return {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("checking")),
        "PYTHONPATH": str(ROOT),
    }


@pytest.mark.nightly
@settings(max_examples=20)
@given(st.data())
def test_drawn_machines_stay_inside_their_arrays(checking: dict[str, str], data) -> None:
    machines = [
        [setting(data, key) for key in data.draw(st.lists(st.sampled_from(KEYS), max_size=5, unique=True))]
        for _ in range(25)
    ]
    run = subprocess.run(
        [sys.executable, str(Path(__file__)), json.dumps(machines)],
        env=checking,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]


if __name__ == "__main__":
    for machine in json.loads(sys.argv[1]):
        outcome(machine)
