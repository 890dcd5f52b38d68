"""Does the search find faults that were planted in gpusim, in a GPU's description, in a kernel's build?

``tools/mutants.py`` prints the table; here all of it is a nightly test, and a fault that needs no second compiled
gpusim is looked for every time. One of a description is in ``test_explore.py``: found, and replayed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from mutant_copy import is_control, make_copy, plant
from mutant_list import BUILDS, CODE, GPUS, BuildMutant, CodeMutant, GpuMutant
from mutants import FEW_BLOCKS, TO_THE_DIGIT, Servers, look_for, table

from gpusim.cli import run


class Here:
    """Runs command lines in this process, with nothing planted."""

    folder = ROOT

    def run(self, number: int, arguments: Sequence[str]) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
        return code, out.getvalue(), err.getvalue()


def _named(name: str) -> GpuMutant | BuildMutant:
    return next(mutant for mutant in (*GPUS, *BUILDS) if mutant.name == name)


# Every day a fault is found, made small and replayed in test_explore.py, and two builds are told apart in
# test_explore_users.py.
@pytest.mark.nightly
def test_a_fault_of_a_build_is_found_made_small_and_replayed(tmp_path, small_pool, one_finding):
    row = look_for(_named("build: padding forgotten"), 0, Servers(Here(), Here()), tmp_path, 0, lambda line: None)
    assert row.caught_by == "builds", row.problem
    assert 0 < row.blocks <= FEW_BLOCKS and row.replays == TO_THE_DIGIT and row.region


@pytest.mark.nightly
def test_a_build_that_differs_in_nothing_is_no_finding(tmp_path):
    same = BuildMutant("the same", "transpose", "transpose.py", "pitch = TILE + padding", "pitch = TILE + padding")
    row = look_for(same, 0, Servers(Here(), Here()), tmp_path, 0, lambda line: None)
    assert (row.caught_by, row.problem, row.examples) == ("", "", 100)


def test_the_copy_holds_the_faults_beside_each_other(tmp_path):
    """Lines that a mutant replaces may have been rewritten since: then it has to be written anew (tools/mutants.py says
    so), but enough of them must be left."""
    outdated = make_copy(tmp_path, CODE)
    planted = [mutant for mutant in CODE if mutant.name not in outdated]
    for mutant in planted:
        text = (tmp_path / "gpusim" / mutant.file).read_text()
        assert f"if planted({CODE.index(mutant) + 1}):" in text
        ast.parse(text)
    names = [mutant.name for mutant in (*CODE, *GPUS, *BUILDS)]
    assert len(set(names)) == len(names)
    assert len(planted) + len(GPUS) + len(BUILDS) >= 18, outdated


def test_a_fault_whose_lines_are_not_there_once_is_refused():
    mutant = CodeMutant("m", "f.py", "a = 1\n    b = 2", "c = 3")
    assert plant("if x:\n    a = 1\n        b = 2\n", mutant, 4).count("planted(4)") == 1
    for text in ("a = 1\n", "a = 1\n    b = 2\na = 1\n    b = 2\n"):
        with pytest.raises(ValueError, match="times"):
            plant(text, mutant, 1)


def test_a_copy_with_nothing_planted_is_the_same_program():
    """Lines after half a statement would run where they should not, also without a fault."""
    text = "if a:\n    b = 1\n    c = 2\nd = 3"
    whole = CodeMutant("whole", "f.py", "b = 1", "b = 2")
    half = CodeMutant("half", "f.py", "if a:\n    b = 1", "if not a:\n    b = 1")
    assert is_control(plant(text, whole, 1), text)
    assert not is_control(plant(text, half, 1), text)


@pytest.mark.nightly
def test_all_but_one_of_the_planted_faults_are_found_and_the_control_is_clean(tmp_path):
    control, *faults = table("", tmp_path)
    assert (control.caught_by, control.problem) == ("", "")
    good = [row for row in faults if row.caught_by and row.blocks <= FEW_BLOCKS and row.replays == TO_THE_DIGIT]
    assert len(faults) - len(good) <= 1, [vars(row) for row in faults if row not in good]
