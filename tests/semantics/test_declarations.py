"""An opcode is declared once: what lacks a fact is refused at import, and whatever derives from the declarations
agrees.

The forms themselves are tested elsewhere; here the table of opcodes, the table of architectures and the reference page.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import row_cases_memory  # noqa: F401 - adds its programs
from arith_harness import lower
from row_cases_arithmetic import ARITHMETIC
from row_cases_programs import PROGRAMS

from gpusim.errors import UnknownGpuError
from gpusim.gpus.names import capability_of
from gpusim.isa import body as bodies
from gpusim.isa.architectures import ARCHITECTURES, BUILT, GENERATIONS, SURVEYED, architecture, nearest
from gpusim.isa.binary.decode import parse_instruction
from gpusim.isa.body import BODIES, FIRST_BODY, LANES_AT_ONCE, Reach, execution
from gpusim.isa.form import MicroOp
from gpusim.isa.opcode import NO_FLOPS, OTHER, Opcode, collect, fp32
from gpusim.isa.table import TABLE, opcode_of_text
from gpusim.model import counters as count
from gpusim.report.roofline import operations
from gpusim.trace.record import INSTRUCTION, PipeClass, Space
from tools.write_isa_reference import PAGE, page

FACTS = {
    "mnemonic": "FROB", "summary": "frobnicate", "lowering": lambda instruction: None, "bodies": (BODIES[0],),
    "pipe": PipeClass.ALU, "coverage": "integer add", "flops": NO_FLOPS,
}  # fmt: skip
FROB = parse_instruction(0, "", "FROB", "R0, R1", 0)


@pytest.mark.parametrize("fact", ["summary", "lowering", "bodies", "pipe", "coverage", "flops"])
def test_an_opcode_that_lacks_a_fact_is_refused_by_name(fact):
    Opcode(**FACTS)
    with pytest.raises(ValueError, match=f"FROB is declared without {fact}"):
        Opcode(**{name: value for name, value in FACTS.items() if name != fact})


def test_a_class_that_coverage_does_not_know_is_refused():
    with pytest.raises(ValueError, match="FROB: no coverage class is called 'sums'"):
        Opcode(**{**FACTS, "coverage": "sums"})


def test_a_memory_opcode_names_its_space_and_its_bytes():
    for half, missing in (({"space": Space.SHARED}, "bytes_moved"), ({"bytes_moved": (4,)}, "space")):
        with pytest.raises(ValueError, match=f"FROB is declared without {missing}"):
            Opcode(**FACTS, **half)


def test_two_declarations_of_one_name_are_refused_twins_included():
    frob = Opcode(**FACTS, twin=True)
    assert list(collect([[frob]])) == ["FROB", "UFROB"]
    with pytest.raises(ValueError, match="two declarations serve UFROB"):
        collect([[frob], [Opcode(**{**FACTS, "mnemonic": "UFROB"})]])


def test_a_lowering_that_contradicts_its_declaration_is_a_mistake_of_ours():
    with pytest.raises(ValueError, match="none of the declared"):
        Opcode(**{**FACTS, "lowering": lambda instruction: MicroOp(BODIES[1].number)}).lower(FROB)
    wrong = MicroOp(BODIES[0].number, pipe=PipeClass.FMA)
    with pytest.raises(ValueError, match="chose pipe FMA"):
        Opcode(**{**FACTS, "lowering": lambda instruction: wrong}).lower(FROB)


def test_the_uniform_twin_runs_on_the_uniform_datapath():
    assert lower("IMAD.WIDE R0, R2, R4, R6").pipe == PipeClass.IMAD_WIDE
    assert lower("UIMAD.WIDE UR0, UR2, UR4, UR6").pipe == PipeClass.UNIFORM


def test_conversions_of_64_bit_types_and_bfloat16_have_pipes_of_their_own():
    wide = ("F2F.F64.F32 R0, R2", "F2F.F32.F64 R0, R2", "I2F.F64 R0, R2", "F2I.F64 R0, R2", "F2I.S64 R0, R2")
    assert {lower(text).pipe for text in wide} == {PipeClass.CONVERT_WIDE}
    assert {lower(text).pipe for text in ("F2I R0, R2", "F2F.F16.F32 R0, R2")} == {PipeClass.CONVERT}
    assert lower("HFMA2.BF16_V2 R0, R1, R2, R3").pipe == PipeClass.BFLOAT
    assert lower("HFMA2 R0, R1, R2, R3").pipe == PipeClass.HALF
    assert (
        lower("HFMA2.MMA R0, R1, R2, R3").pipe == lower("HFMA2.MMA.BF16_V2 R0, R1, R2, R3").pipe == PipeClass.HALF_MMA
    )
    assert lower("HADD2.F32 R0, -RZ, R1.H0_H0").pipe == PipeClass.HALF_SINGLE
    assert TABLE["UIMAD"].uniform and TABLE["UIMAD"].summary == "multiply and add (uniform)"


def test_bodies_have_names_and_numbers_of_their_own_and_each_can_be_reached():
    assert [body.number for body in BODIES] == list(range(FIRST_BODY, FIRST_BODY + len(BODIES)))
    assert len({body.name for body in BODIES}) == len(BODIES)
    chosen = {number for opcode in TABLE.values() for number in opcode.numbers}
    for body in BODIES:
        if body.number not in chosen:  # then another one hands over to it
            makers = (other.unmasked for other in BODIES if callable(other.unmasked))
            handed = [choose((0, 0, 0, 0), words) for choose in makers for words in (1, 2, 4)]
            assert any(found is body for found in handed), body.name


def test_a_second_body_of_a_name_is_refused():
    with pytest.raises(ValueError, match=f"two bodies are called {BODIES[0].name}"):
        bodies.vector_body(BODIES[0].name)


def test_how_a_body_is_run_follows_from_flags_words_and_predicates():
    by_name = {body.name: body for body in BODIES}
    add, nearest_add = by_name["add_double"], by_name["add_double_nearest"]
    assert execution(add.number, (0,), 2, False) == (nearest_add.number, LANES_AT_ONCE)
    assert execution(add.number, (1,), 2, False) == (add.number, 0)
    lea = by_name["lea"]
    assert execution(lea.number, (1, 0, 0), 1, False)[1] != execution(lea.number, (1, 0, 0), 1, True)[1]
    with pytest.raises(ValueError, match="body mov has no way to run"):
        execution(by_name["mov"].number, (), 1, True)
    assert by_name["mov"].reach == Reach.VECTOR and by_name["mov"].function is None


def test_every_memory_form_moves_the_bytes_that_are_declared():
    moved = 0
    for program in PROGRAMS:
        for line in program.lines:
            text = line.split(" ", 1)[1] if line.startswith("@") else line
            if text.endswith(":") or "{" in text:
                continue
            micro, (opcode, _) = lower(text), opcode_of_text(text)
            if micro is not None and opcode.bytes_moved and micro.access_bytes:
                assert micro.space == opcode.space and micro.access_bytes in opcode.bytes_moved, text
                moved += 1
    assert moved > 20


def test_every_arithmetic_case_finds_its_declaration_by_text():
    for case in ARITHMETIC:
        opcode, _ = opcode_of_text(case.text.replace("{u}", "U"))
        assert opcode.mnemonic.removeprefix("U") == case.mnemonic.removeprefix("U")
        assert opcode.coverage_class(()) != OTHER


def _launch(*executed: tuple[str, int, int]) -> SimpleNamespace:
    """What the roofline looks at of a launch: (text, warps that issued it, lanes) an instruction."""
    work = np.zeros((len(executed), 64), np.int64)
    work[:, count.THREAD_INSTRUCTIONS] = [lanes for _, _, lanes in executed]
    code = np.zeros(len(executed), INSTRUCTION)
    code["matrix_macs"] = [2048 if "MMA" in text else 0 for text, _, _ in executed]
    issues = np.array([[warps] for _, warps, _ in executed])
    texts = tuple(text for text, _, _ in executed)
    return SimpleNamespace(
        program=SimpleNamespace(instructions=code, texts=texts), work_by_instruction=work, stalls_by_instruction=issues
    )


def test_the_roofline_counts_every_floating_opcode_and_uniform_ones_once_a_warp():
    launch = _launch(
        ("FHADD R0, R1, R2", 2, 60), ("@P0 FHFMA R0, R1, R2, R3", 1, 32), ("UFFMA UR0, UR1, UR2, UR3", 3, 96),
        ("HFMA2 R0, R1, R2, R3", 1, 8), ("DADD R0, R2, R4", 1, 5), ("HMMA.16816.F32 R0, R4, R8, R0", 2, 64),
        ("MOV R0, R1", 9, 288), ("FFMA R0, R1, R2, R3", 0, 0), ("<malloc>", 1, 32),
    )  # fmt: skip
    assert operations([launch]) == {"FP32": 60 + 2 * 32 + 2 * 3, "FP16": 4 * 8, "FP64": 5, "tensor": 2 * 2 * 2048}
    assert TABLE["FFMA2"].flops == fp32(4)


def test_architectures_are_in_order_and_found_by_name_and_capability():
    capabilities = [row.capability for row in ARCHITECTURES]
    assert capabilities == sorted(set(capabilities))
    assert {"sm_103", "sm_110", "sm_121"} <= {row.name for row in BUILT}
    assert set(GENERATIONS) <= set(SURVEYED) <= set(BUILT)
    for row in ARCHITECTURES:
        assert architecture(row.capability) is row is nearest(row.capability)
        assert capability_of(row.target) == capability_of(row.name) == row.capability
        assert row.block_shared_bytes <= row.sm_shared_bytes
    assert (nearest((9, 5)).name, nearest((13, 0)).name, nearest((3, 0)).name) == ("sm_90", "sm_121", "sm_70")
    assert replace(architecture((9, 0))).target == "sm_90a" and capability_of("h200") is None
    with pytest.raises(UnknownGpuError, match="sm_99: known are sm_70, .*sm_121"):
        architecture((9, 9))


def test_the_reference_page_is_what_the_declarations_say():
    """``python tools/write_isa_reference.py`` writes it anew."""
    assert PAGE.read_text() == page()
