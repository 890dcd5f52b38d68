"""Does each arithmetic row of the table, on the vector and on the uniform datapath, compute what plain Python says?

One instruction a row runs in the interpreter itself (:mod:`sass_harness`), for a whole warp with its own operands in
each lane, and on the uniform datapath for a team of warps. Edge values come first, then Hypothesis draws.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from lane_values import SEEDS
from oracles_arith import F16, F32, F64, INTEGER_EDGES, M32, edges

pytest.importorskip("numba.cuda", reason="needs the CUDA wheels")

from row_cases_arithmetic import ARITHMETIC, ArithmeticCase, far_from_the_ends
from sass_harness import run

from gpusim.isa.table import TABLE

LANES = 32
_F16, _F32 = edges(F16), edges(F32)
EDGES = {
    "i": INTEGER_EDGES,
    "w": [h << 32 | low for h in INTEGER_EDGES[::3] for low in INTEGER_EDGES[1::5]],
    "f": _F32,
    "F": [far_from_the_ends(code) for code in _F32],
    "g": [h << 32 | low for h, low in zip(_F32, reversed(_F32))],
    "h": [h << 16 | low for h, low in zip(_F16, reversed(_F16))],
    "d": edges(F64),
}
WORDS = {"i": 1, "w": 2, "f": 1, "F": 1, "g": 2, "h": 1, "d": 2}
#: Where the operands arrive, a pair each, and the predicates' bits behind them.
PLACES, PREDICATE_PLACE = {"a": 8, "b": 10, "c": 12}, 14
RESULTS = {"d": ["R20"], "D": ["R20", "R21"], "N": ["R20", "R21"], "p": ["R22"], "q": ["R23"]}
SOURCES = {"s": "P0", "s2": "P3", "s3": "P4"}


def variants() -> list[tuple[ArithmeticCase, bool]]:
    """Every case on the vector datapath and, where the table has that row, on the uniform one."""
    both = [(case, uniform) for case in ARITHMETIC for uniform in (False, True)]
    return [(case, uniform) for case, uniform in both if case.text.startswith("{u}") or not uniform]


def lines_of(case: ArithmeticCase, uniform: bool) -> list[str]:
    """The program: operands and predicates moved to where the instruction wants them, and its results back."""
    u = "U" if uniform else ""
    names = {name: f"{u}R{place}" for name, place in PLACES.items()}
    names |= {name: u + predicate for name, predicate in SOURCES.items()}
    names |= {"u": u, "d": f"{u}R20", "z": f"{u}RZ", "t": f"{u}PT", "p": f"{u}P1", "q": f"{u}P2"}
    lines = ["MOV R7, 0x1"]
    if uniform:
        lines += [f"R2UR UR{place}, R{place}" for place in range(8, 15)]
    for bit, predicate in enumerate(SOURCES.values()):
        lines.append(f"{u}LOP3.LUT {u}R16, {u}R{PREDICATE_PLACE}, {1 << bit:#x}, {u}RZ, 0xc0, !{u}PT")
        lines.append(f"{u}ISETP.NE.AND {u}{predicate}, {u}PT, {u}R16, {u}RZ, {u}PT")
    lines.append(case.text.format(**names))
    if uniform:
        lines += ["MOV R20, UR20", "MOV R21, UR21"]
    return [*lines, f"SEL R22, R7, RZ, {u}P1", f"SEL R23, R7, RZ, {u}P2"]


def words_of(case: ArithmeticCase, operands: list[list[int]], predicates: list[int]) -> np.ndarray:
    """uint32[7, n]: the words of a, b and c, two each, and the predicates."""
    rows = []
    for values in operands:
        rows += [[v & M32 for v in values], [v >> 32 for v in values]]
    return np.array([*rows, predicates], np.uint64).astype(np.uint32)


def check(case: ArithmeticCase, uniform: bool, operands: list[list[int]], predicates: list[int]) -> None:
    outputs = [register for kind in case.results for register in RESULTS[kind]]
    inputs = words_of(case, operands, predicates)
    ran = run(lines_of(case, uniform), inputs, outputs, (12, 0), by_warp=uniform)
    assert ("U" if uniform else "") + case.mnemonic in ran.executed
    for i, (a, b, c, s) in enumerate(zip(*operands, predicates, strict=True)):
        mine = ran.words[:, LANES * i : LANES * (i + 1)] if uniform else ran.words[:, i : i + 1]
        expected = []
        for kind, value in zip(case.results, case.oracle(a, b, c, s), strict=True):
            if kind == "N" and F64.is_nan(value) and F64.is_nan(int(mine[1, 0]) << 32 | int(mine[0, 0])):
                value = int(mine[1, 0]) << 32 | int(mine[0, 0])
            expected += [value & M32, value >> 32] if kind in "DN" else [value]
        assert (mine == np.array(expected, np.uint32)[:, None]).all(), (
            f"{case.text}: a={a:#x} b={b:#x} c={c:#x} s={s}: {[hex(v) for v in mine[:, 0]]}, not {[hex(v) for v in expected]}"
        )


def edge_operands(case: ArithmeticCase, turn: int) -> tuple[list[list[int]], list[int]]:
    """Operands that are all edges; three turns pair them differently."""
    columns = []
    for place, kind in enumerate(case.kinds):
        pool = EDGES[kind]
        step = (1, 7, 11)[(place + turn) % 3]
        columns.append([pool[(i * step + turn * 13 + place) % len(pool)] for i in range(LANES)])
    return columns, [(i + turn) % 8 for i in range(LANES)]


def value(kind: str, random: Random) -> int:
    """An edge or any bits. Drawn from one seed: a hundred values a run that Hypothesis draws one by one take as long as
    the rest of the test, and the message names the lane's operands as it is."""
    if random.random() < 0.5:
        return random.choice(EDGES[kind])
    bits = random.getrandbits(32 * WORDS[kind])
    return far_from_the_ends(bits) if kind == "F" else bits


@pytest.mark.parametrize(("case", "uniform"), [
    pytest.param(case, uniform, id=f"{'U' if uniform else ''}{case.text.removeprefix('{u}')}") for case, uniform in variants()
])  # fmt: skip
@example(None)
@given(seed=SEEDS)
@settings(max_examples=4)
def test_the_row_computes_what_python_says(case, uniform, seed):
    if seed is None:
        for turn in range(3):
            check(case, uniform, *edge_operands(case, turn))
        return
    random = Random(seed)
    columns = [[value(kind, random) for _ in range(LANES)] for kind in case.kinds]
    check(case, uniform, columns, [random.getrandbits(3) for _ in range(LANES)])


def test_each_case_that_has_a_uniform_row_runs_on_it():
    for case in ARITHMETIC:
        assert case.text.startswith("{u}") == (f"U{case.mnemonic}" in TABLE), case.text
