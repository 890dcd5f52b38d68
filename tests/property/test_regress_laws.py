"""Do the parts of a difference add up to it, whatever the two launches, and is a verdict fair both ways round?"""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.compare.error import Verdict
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.model.stall_reasons import STALL_NAMES
from gpusim.regress import align as align_module
from gpusim.regress.align import Change, align, normal
from gpusim.regress.attribution import apportion, attribute
from gpusim.regress.comparand import Comparand, ComparedLaunch
from gpusim.regress.explain import sentence
from gpusim.regress.gpu_changes import differing, with_figures
from gpusim.regress.judge import judge, pair_launches
from gpusim.regress.records import line_records
from gpusim.regress.thresholds import Thresholds
from gpusim.report.junit import JunitCase, junit_xml
from gpusim.report.markdown import markdown_comment
from gpusim.silicon.row import Estimate, SiliconRow
from gpusim.store import Instruction, SimulatedLaunch
from gpusim.store.hashes import gpu_values

TEXTS = ("FADD R1, R2, R3", "FADD R7, R2, R9", "LDG.E R2, [R4.64]", "LDS R2, [R4]", "BRA 0x1f0", "EXIT")
MIRRORED = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}

instructions = st.builds(
    Instruction,
    st.integers(0, 4096),
    st.sampled_from(["", "k.py"]),
    st.integers(0, 3),
    st.sampled_from(TEXTS),
    st.dictionaries(st.sampled_from(STALL_NAMES[:5]), st.integers(0, 10**7), max_size=3),
    st.just({}),
)


@st.composite
def launches(draw, cycles=None) -> SimulatedLaunch:
    """A launch whose stalls are the sums of its instructions'."""
    program = tuple(draw(st.lists(instructions, max_size=7)))
    stalls: dict[str, int] = {}
    for instruction in program:
        for reason, count in instruction.stalls.items():
            stalls[reason] = stalls.get(reason, 0) + count
    length = draw(st.integers(1, 10**8)) if cycles is None else cycles
    return SimulatedLaunch("k", "gpu", length, 1e9, shape="n=1", stalls=stalls, instructions=program)


@given(launches(), launches())
def test_every_split_adds_up_to_the_difference(base, head):
    parts, difference = attribute(base, head), head.cycles - base.cycles
    assert sum(term.cycles for term in parts.stalls) == difference
    if parts.instructions:
        assert sum(term.cycles for term in parts.instructions) + parts.in_flight_cycles == difference
        assert sum(term.cycles for term in parts.lines) + parts.in_flight_cycles == difference


@given(launches())
def test_a_launch_against_itself_has_no_terms(launch):
    parts = attribute(launch, launch)
    assert not any(term.cycles for term in (*parts.stalls, *parts.instructions, *parts.lines))
    assert not parts.changed


@given(st.dictionaries(st.integers(), st.floats(-1e9, 1e9), min_size=1, max_size=30))
def test_shares_are_whole_and_near(exact):
    total = round(sum(exact.values()))
    shares = apportion(exact, total)
    assert sum(shares.values()) == total
    assert all(abs(shares[key] - value) <= 1.5 for key, value in exact.items())


@given(st.lists(instructions, max_size=9), st.lists(instructions, max_size=9))
def test_an_alignment_has_every_instruction_once_in_order(base, head):
    pairs = align(base, head)
    assert [pair.base for pair in pairs if pair.base] == base
    assert [pair.head for pair in pairs if pair.head] == head
    for pair in pairs:
        if pair.change is Change.SAME:
            assert normal(pair.base.text) == normal(pair.head.text)


@given(st.lists(st.sampled_from("abc"), max_size=80), st.lists(st.integers(0, 79), max_size=6), st.integers(0, 3))
def test_a_long_program_is_aligned_as_well(texts, edits, kind):
    """By stretches: every instruction once, in order, matched only with its like, and an edit costs its surroundings
    at most."""
    base = [Instruction(16 * index, "", 0, text, {}, {}) for index, text in enumerate(texts)]
    head = list(base)
    for edit in edits:
        if edit < len(head):
            head[edit : edit + (kind > 1)] = [Instruction(0, "", 0, "d", {}, {})] * (kind % 2 + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(align_module, "MOST_EXACT", 20)
        patch.setattr(align_module, "STRETCH", 4)
        pairs = align(base, head)
    assert [pair.base for pair in pairs if pair.base] == base
    assert [pair.head for pair in pairs if pair.head] == head
    same = [pair for pair in pairs if pair.change is Change.SAME]
    assert all(pair.base.text == pair.head.text for pair in same)
    if len(texts) > 20:
        untouched = len(texts) - 12 * len(edits)
        assert len(same) >= untouched or len(set(texts)) < 3


def test_renumbered_registers_and_moved_targets_are_no_change():
    assert normal("@!P0 FADD R12, -R2, UR4 ;") == normal("@!P3 FADD R1, -R44, UR5")
    assert normal("BRA 0x1f0") == normal("BRA 0x20") == normal("BRA `(.L_x_3)").replace("`", "")
    assert normal("MOV R1, c[0x0][0x28]") != normal("MOV R1, c[0x0][0x160]")
    assert normal("IADD3 R1, R2, 0x10, RZ") != normal("IADD3 R1, R2, 0x20, RZ")
    assert normal("LDG.E R2, [R4.64]") != normal("LDG.E.64 R2, [R4.64]")


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 50), st.integers(0, 1000))
def test_a_verdict_says_the_same_both_ways_round(before, after, percent, cycles):
    def side(length: int) -> Comparand:
        return Comparand("", (ComparedLaunch(SimulatedLaunch("k", "gpu", length, 1e9, shape="n=1")),))

    thresholds = Thresholds(percent, cycles)
    (there,) = judge(side(before), side(after), thresholds)
    (back,) = judge(side(after), side(before), thresholds)
    if Verdict.SAME not in (there.verdict, back.verdict):  # a share of the smaller is less than of the larger
        assert back.verdict == MIRRORED[there.verdict]
    assert (there.verdict == Verdict.SAME) == (abs(after - before) <= max(percent * before / 100, cycles))


def test_a_kernel_renamed_between_two_folders_keeps_its_number():
    def folder(*files: str) -> Comparand:
        items = [ComparedLaunch(SimulatedLaunch(file.split(".")[1], "g", 100, 1e9), file) for file in files]
        return Comparand("", tuple(items), folder=True)

    base, head = folder("1.a.trace", "2.b.trace", "3.c.trace"), folder("1.a.trace", "2.bb.trace", "4.d.trace")
    outcomes = judge(base, head, Thresholds())
    assert [(o.kernel, o.verdict) for o in outcomes] == [
        ("a", Verdict.SAME), ("bb", Verdict.SAME), ("c", Verdict.NO_DATA), ("d", Verdict.NO_DATA),
    ]  # fmt: skip
    assert "BASE is b" in outcomes[1].reason
    assert [pair for pair in pair_launches(head, base) if None not in pair] == [
        (b, a) for a, b in zip(base.items[:2], head.items[:2], strict=True)
    ]


def test_launches_at_different_clocks_are_judged_by_time():
    """More cycles, but shorter ones."""
    slow, fast = (SimulatedLaunch("k", "g", cycles, hz, shape="n=1") for cycles, hz in ((1000, 1e9), (1500, 2e9)))
    (outcome,) = judge(Comparand("", (ComparedLaunch(slow),)), Comparand("", (ComparedLaunch(fast),)), Thresholds())
    assert (outcome.verdict, outcome.unit, outcome.cycles_grown) == (Verdict.FASTER, "us", 500)
    assert "1000 to 1500 cycles, 1 to 0.75 us" in sentence(outcome)


def measured(low: float, median: float, high: float) -> Comparand:
    row = SiliconRow("k", "n=1", gpu="h200", time_us=Estimate(median, low, high))
    return Comparand("", (), (row,))


def test_measurements_are_judged_by_their_intervals():
    usual = measured(99, 100, 101)

    def verdict(head: Comparand, base: Comparand = usual, percent: float = 3.0) -> Verdict:
        (outcome,) = judge(base, head, Thresholds(percent))
        assert outcome.unit == "us" and outcome.name == "measured k:n=1 (imported)"
        return outcome.verdict

    assert verdict(measured(98, 100.5, 103)) == Verdict.SAME
    assert verdict(measured(109, 110, 111)) == Verdict.SLOWER
    assert verdict(measured(89, 90, 91)) == Verdict.FASTER
    assert verdict(measured(101.5, 104, 106)) == Verdict.AMBIGUOUS
    assert verdict(measured(80, 100, 120)) == Verdict.SAME, "nothing says that it differs"
    assert verdict(measured(101.5, 102.5, 109)) == Verdict.AMBIGUOUS, "it does differ, and perhaps by too much"


def test_samples_are_judged_by_their_distribution():
    """A tail does not make a kernel slower; a shift of all of it does; a wrong result has no time."""
    chance = np.random.default_rng(0)

    def side(factor: float, tail: float = 0.0, flags: tuple = ()) -> Comparand:
        samples = 100.0 * factor * np.exp(chance.normal(0, 0.004, 60))
        samples[::7] *= 1 + tail
        low, median, high = np.quantile(samples, (0.4, 0.5, 0.6))
        estimate = Estimate(float(median), float(low), float(high))
        return Comparand(
            "", (), (SiliconRow("k", gpu="h200", time_us=estimate, samples_us=tuple(samples), flags=flags),)
        )

    for _ in range(5):
        base = side(1.0)
        verdicts = [judge(base, head, Thresholds())[0].verdict for head in (side(1.0), side(1.0, tail=0.5), side(1.05))]
        assert verdicts[0] == Verdict.SAME and verdicts[1] in (Verdict.SAME, Verdict.AMBIGUOUS)
        assert verdicts[2] == Verdict.SLOWER
    (outcome,) = judge(base, side(1.0, flags=("wrong_result",)), Thresholds())
    assert outcome.verdict == Verdict.NO_DATA and "HEAD computed a wrong result" in outcome.reason


def test_a_machine_turns_into_another_figure_by_figure():
    old, new = load_gpu("a100_80gb"), load_gpu("rtx4090")
    changes = differing(gpu_values(old), gpu_values(new))
    assert len(changes) > 20
    assert replace(with_figures(old, new, list(changes)), name=new.name, title=new.title) == new
    one = override_gpu(old, ["pipes.fma.latency_cycles=9"])
    assert [change.key for change in differing(gpu_values(old), gpu_values(one))] == ["pipes.fma.latency_cycles"]


def test_a_figure_that_the_model_gained_is_no_change_of_the_machine():
    def side(figures: dict, model: str, digest: str) -> Comparand:
        launch = SimulatedLaunch("k", "h200", 100, 1e9, shape="n=1", gpu_hash=digest)
        return Comparand("", (ComparedLaunch(launch, "", figures, model),))

    (outcome,) = judge(
        side({"l2.ways": 16}, "old", "a"), side({"l2.ways": 16, "l0.bytes": 1}, "new", "b"), Thresholds()
    )
    assert (outcome.causes, outcome.figures) == (("gpusim's model",), ())
    (outcome,) = judge(side({"l2.ways": 16}, "old", "a"), side({"l2.ways": 8}, "old", "b"), Thresholds())
    assert outcome.causes == ("GPU",) and outcome.figures[0].head == 8


nasty = st.text(st.characters(codec="utf-8"), max_size=30)


@given(st.lists(st.tuples(nasty, nasty, st.sampled_from([str(v) for v in Verdict]), nasty), max_size=5))
def test_any_text_makes_readable_xml_with_the_right_counts(rows):
    cases = [JunitCase(name, name, verdict, message, detail) for name, detail, verdict, message in rows]
    root = ElementTree.fromstring(junit_xml("suite", cases))
    assert root.get("tests") == str(len(rows)) == str(len(root.findall(".//testcase")))
    assert {case.get("time") for case in root.iter("testcase")} <= {"0.000"}
    for tag, verdicts in (("failure", {"SLOWER"}), ("error", {"NO-DATA", "UNSUPPORTED"}), ("skipped", {"AMBIGUOUS"})):
        assert len(root.findall(f".//{tag}")) == sum(row[2] in verdicts for row in rows)


def test_a_comment_escapes_what_comes_from_outside_and_stays_short():
    evil = "a|b <script> ![x](http://x) @team `code`\nline"
    text = markdown_comment(evil, evil, [("Verdicts", [{"launch": evil}]), (evil, [{"code": evil}])])
    assert "<script>" not in text
    read_as_markdown = [line for line in text.splitlines() if not line.startswith("<details>")]  # that is HTML
    assert not re.search(r"(?<!\\)(!\[|\|b)", "\n".join(read_as_markdown))
    said = markdown_comment("t", "s", [("Verdicts", [{"a": 1}])], [evil] * 10)
    assert "<script>" not in said and said.count("\n- a") == 9 and "\n- and 2 more\n" in said
    many = [(f"table {i}", [{"code": "x" * 1000}]) for i in range(1000)]
    assert len(markdown_comment("t", "s", many)) < 65_536 and "do not fit" in markdown_comment("t", "s", many)


def test_removed_instructions_go_by_the_line_that_theirs_became():
    """A build in a file of another name, or a line further down, is one line and not two."""

    def side(file: str, line: int, texts: tuple[str, ...]) -> SimulatedLaunch:
        code = tuple(Instruction(16 * i, file, line, text, {"selected": 10}, {}) for i, text in enumerate(texts))
        total = 10 * len(texts)
        return SimulatedLaunch("k", "h200", total, 1e9, stalls={"selected": total}, instructions=code)

    old = side("old.py", 7, ("LDG R0, [R2]", "FADD R1, R0, R0", "FADD R3, R1, R1", "EXIT"))
    new = side("new.py", 8, ("LDG R0, [R2]", "FADD R3, R1, R1", "EXIT"))
    (line,) = attribute(old, new).lines
    assert (line.file, line.line, line.cycles, line.changed) == ("new.py", 8, -10, 1)


def test_a_line_shows_the_code_that_was_simulated_whatever_its_file_says_now(tmp_path):
    """The file has been edited since, or lies in a checkout that is gone."""
    file = tmp_path / "k.py"
    file.write_text("something else\n")

    def side(line: int, text: str, source: str) -> SimulatedLaunch:
        code = (Instruction(0, str(file), line, text, {"selected": 10}, {}),)
        return SimulatedLaunch(
            "k", "h200", 10, 1e9, stalls={"selected": 10}, instructions=code, source=((str(file), line, source),)
        )

    old, new = side(1, "FADD", "s += x"), side(1, "FFMA", "s += x * x")
    item = tuple(ComparedLaunch(each) for each in (old, new))
    (outcome,) = judge(Comparand("old", item[:1]), Comparand("new", item[1:]), Thresholds())
    assert [row["code"] for row in line_records(outcome)] == ["s += x * x"]
    assert [line.code for line in attribute(old, replace(new, source=())).lines] == ["s += x"]
