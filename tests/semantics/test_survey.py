"""Does a survey count every instruction of the code, and name what nothing emulates?"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda

from gpusim import cli
from gpusim.capturing import capture
from gpusim.errors import CompileError, ToolchainError, UnsupportedOpcodeError
from gpusim.frontend.native import link, nvrtc
from gpusim.frontend.native.cpp_unit import CppUnit
from gpusim.frontend.numba.build import argument_types, build
from gpusim.isa.binary import cubin_tables, listing
from gpusim.isa.binary.cubin import kernels_of, load_kernel
from gpusim.isa.binary.cubin_tables import attributes
from gpusim.isa.binary.decode import decode, parse_instruction
from gpusim.isa.binary.elf import parse_elf
from gpusim.isa.binary.externals import CALLS
from gpusim.isa.survey import Survey, form_of, survey, survey_cubin
from gpusim.isa.table import TABLE
from tools.decode_batch import decode_codes


@cuda.jit
def fused(values):
    i = cuda.grid(1)
    values[i] = values[i] * values[i + 1] + np.float32(3)


@cuda.jit
def talks(values):
    values[0] = 2
    print(values[0])


ARGUMENTS = (np.ones(64, np.float32),)


def built(capability: tuple[int, int]):
    return build(fused, argument_types(fused, ARGUMENTS), capability)


@pytest.mark.parametrize(
    ("guard", "opcode", "operands", "form"),
    [
        ("@!P0", "LDG.E.64", "R2,desc[UR4][R4.64+0x10]", "LDG.E.64 R, desc[UR][R.64+imm]"),
        ("", "FFMA.FTZ", "R1,R2.reuse,c[0x0][0x160],-R3", "FFMA.FTZ R, R, c[bank][imm], R"),
        ("", "S2R", "R0,SR_TID.X", "S2R R, SR_TID.X"),
        ("", "STS", "[R2.X4+UR5+0x8],R1", "STS [R.X4+UR+imm], R"),
        ("", "HADD2", "R1,R2.H0_H0,-R3.H1_H1", "HADD2 R, R.H0_H0, R.H1_H1"),
        ("", "EXIT", "", "EXIT"),
        ("", "LDG.E", "R2,[RZ]", "LDG.E R, [imm]"),
        (
            "",
            "HGMMA.64x128x16.F32",
            "R24,gdesc[UR24].tnspB,R24,gsb0",
            "HGMMA.64x128x16.F32 R, gdesc[UR].tnspB, R, gsb0",
        ),
        ("", "LDTM.x64", "R4,tmem[UR13+0x40]", "LDTM.x64 R, tmem[UR+imm]"),
        (
            "",
            "UTCHMMA",
            "gdesc[UR10],gdesc[UR12],tmem[UR8],tmem[UR26],idesc[UR27],UP0",
            "UTCHMMA gdesc[UR], gdesc[UR], tmem[UR], tmem[UR], idesc[UR], UP",
        ),
    ],
)
def test_a_form_is_the_instruction_without_its_numbers(guard, opcode, operands, form):
    assert form_of(parse_instruction(0, guard, opcode, operands, 0)) == form


def test_every_instruction_counts_and_surveys_add_up():
    kernel = built((9, 0))
    image = load_kernel(kernel.cubin)
    instructions = decode(image, kernel.cubin)
    found = survey(image, instructions)
    assert found.instructions == len(instructions) and found.covered() == 1 and not found.refused()
    assert found.counts[next(f for f in found.counts if f.text == "EXIT")] == 1
    total = Survey()
    total.add(found)
    total.add(found)
    assert total.instructions == 2 * len(instructions) and total.kernels == 2
    assert set(total.counts) == set(found.counts)


def test_what_nothing_emulates_is_named_with_reason_and_place():
    image = load_kernel(built((9, 0)).cubin)
    odd = [
        parse_instruction(0x20, "", "RTTOFSOMETHING", "R1", 0),
        parse_instruction(0x30, "", "FADD.NOSUCH", "R1,R2,R3", 0),
        parse_instruction(0x40, "", "FADD", "R1,R2,R3", 0),
    ]
    found = survey(replace(image, externals={0x1000: "__cuda_syscall_32f3056bbb"}), odd, "mine")
    reasons = {form.text.split()[0]: form.refused for form in found.refused()}
    assert "RTTOFSOMETHING is not emulated" in reasons["RTTOFSOMETHING"]
    assert "no such form of FADD" in reasons["FADD.NOSUCH"]
    assert "__cuda_syscall_32f3056bbb is a driver function" in reasons["CALL"]
    assert found.covered() == pytest.approx(1 / 4)
    assert any(place.startswith("mine, 0x20: RTTOFSOMETHING") for place in found.examples.values())


@pytest.mark.parametrize("capability", [(7, 5), (9, 0), (12, 0)])
def test_many_kernels_at_a_time_decode_as_one_does(capability):
    kernel = built(capability)
    image = load_kernel(kernel.cubin)
    alone = [form_of(i) for i in decode(image, kernel.cubin)]
    first, second = decode_codes([image.code, image.code], image.architecture)
    assert [form_of(i) for i in first] == alone == [form_of(i) for i in second]
    assert [i.operands[-1].value for i in first if i.mnemonic == "BRA"] == [
        i.operands[-1].value for i in second if i.mnemonic == "BRA"
    ]


def test_a_driver_function_that_nothing_serves_is_refused_before_anything_runs(monkeypatch):
    monkeypatch.delitem(CALLS, "vprintf")
    values = np.ones(4, np.float32)
    with pytest.raises(UnsupportedOpcodeError, match="kernel talks calls vprintf.*malloc"):
        capture(talks, 1, 1, (values,), gpu="sm_90")
    assert (values == 1).all()


def test_a_refused_instruction_is_named_with_kernel_address_and_source_line(monkeypatch):
    monkeypatch.delitem(TABLE, "FFMA")
    again = cuda.jit(fused.py_func)
    with pytest.raises(UnsupportedOpcodeError) as caught:
        capture(again, 1, 1, ARGUMENTS, gpu="sm_90")
    line = fused.py_func.__code__.co_firstlineno + 3
    assert "kernel fused, address 0x" in str(caught.value) and "FFMA R" in str(caught.value)
    assert f"test_survey.py:{line}" in str(caught.value)
    assert (ARGUMENTS[0] == 1).all()


def test_the_command_prints_the_same_counts_in_every_format(capsys):
    assert cli.run(["sass", "survey", "saxpy", "--arch", "sm_80", "--gpu", "h200", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [total["architecture"] for total in found["totals"]] == ["sm_90", "sm_80"]
    for total in found["totals"]:
        assert total["covered_percent"] == 100 and total["forms"] == total["supported"] > 10
        assert total["instructions"] == sum(form[total["architecture"]] for form in found["forms"])
    assert cli.run(["sass", "survey", "saxpy", "--arch", "sm_80", "--arch", "sm_90", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(r["form"], int(r["sm_80"])) for r in rows} == {(f["form"], f["sm_80"]) for f in found["forms"]}
    assert cli.run(["sass", "survey", "saxpy", "--arch", "sm_80", "--format", "md"]) == 0
    assert "covered_percent" in capsys.readouterr().out


def test_an_unsupported_form_is_exit_code_five_and_told_on_stderr(capsys, monkeypatch):
    monkeypatch.delitem(TABLE, "FFMA")
    assert cli.run(["sass", "survey", "saxpy", "--arch", "sm_90", "--format", "json"]) == 5
    captured = capsys.readouterr()
    assert "FFMA is not emulated" in captured.err
    refused = [form for form in json.loads(captured.out)["forms"] if form["supported"] == "no"]
    assert refused and all(form["form"].startswith("FFMA") for form in refused)


def test_a_listing_has_every_instruction_and_says_which_are_not_emulated(capsys, monkeypatch):
    assert cli.run(["sass", "saxpy", "--gpu", "h100", "--format", "json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    monkeypatch.delitem(TABLE, "FFMA")
    assert cli.run(["sass", "saxpy", "--gpu", "h100", "--format", "json"]) == 0
    out, told = capsys.readouterr()
    rows = json.loads(out)
    assert [row["sass"] for row in rows] == [row["sass"] for row in whole]
    refused = [row for row in rows if row["emulated"] == "no"]
    assert refused and all(row["pipe"] == "-" and "FFMA" in row["sass"] for row in refused)
    assert f"address 0x{refused[0]['address']}" in told and "FFMA is not emulated" in told


def test_a_cubin_file_is_surveyed(capsys, tmp_path):
    path = tmp_path / "kernel.cubin"
    path.write_bytes(built((10, 0)).cubin)
    assert cli.run(["sass", "survey", str(path), "--format", "json"]) == 0
    (total,) = json.loads(capsys.readouterr().out)["totals"]
    assert total["architecture"] == "sm_100" and total["kernels"] == 1


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF" + bytes(60)])
def test_what_is_no_cubin_is_a_usage_error(capsys, tmp_path, content):
    path = tmp_path / "kernel.cubin"
    path.write_bytes(content)
    assert cli.run(["sass", "survey", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith(f"error: {path}: ") and "cubin" in captured.err


@settings(max_examples=15)
@given(st.data())
def test_a_damaged_cubin_never_escapes_the_reader(data):
    cubin = bytearray(built((9, 0)).cubin)
    for _ in range(data.draw(st.integers(1, 8))):
        cubin[data.draw(st.integers(0, len(cubin) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(cubin[: data.draw(st.integers(0, len(cubin)) | st.just(len(cubin)))])
    try:
        _, surveys = survey_cubin(damaged)
    except (CompileError, ToolchainError) as error:
        assert "\n" not in str(error)
    else:
        assert surveys


@cuda.jit
def takes_nothing():
    cuda.syncthreads()


@pytest.mark.parametrize("capability", [(7, 5), (9, 0), (12, 0)])
def test_a_kernel_without_parameters_is_a_kernel(capability):
    cubin = build(takes_nothing, (), capability).cubin
    (name,) = survey_cubin(cubin)[1]
    assert "takes_nothing" in name and load_kernel(cubin).parameters == ()


@pytest.fixture(scope="module")
def many_kernels() -> bytes:
    """Twelve kernels that call the same function."""
    function = "__device__ __noinline__ unsigned f(unsigned a) { for (int i = 0; i < 9; i++) a = __popc(a * a) ^ i; return a; }"
    kernels = "".join(f'extern "C" __global__ void k{i}(unsigned *p) {{ *p = f(*p); }}\n' for i in range(12))
    built = nvrtc.compile_cpp(CppUnit(f"{function}\n{kernels}", "many.cu"), None, "sm_90", relocatable=True)
    return link.link("many", "sm_90", [(".ptx", "many.cu", built.ptx.encode())])


def test_what_many_kernels_call_is_looked_at_once(many_kernels, monkeypatch):
    looked = []
    monkeypatch.setattr("gpusim.isa.survey.form_of", lambda each: looked.append(each) or form_of(each))
    _, surveys = survey_cubin(many_kernels)
    assert len(surveys) == 12 and {len(one.counts) for one in surveys.values()} == {len(surveys["k0"].counts)}
    code = [section.size // 16 for section in parse_elf(many_kernels).starting(".text.")]
    assert len(code) == 13 and len(looked) == sum(code) < sum(one.instructions for one in surveys.values())
    for name in ("k0", "k7"):
        image = load_kernel(many_kernels, name)
        assert surveys[name] == survey(image, decode(image, many_kernels))


def test_kernels_that_all_reach_all_are_refused(many_kernels, monkeypatch):
    monkeypatch.setattr("gpusim.isa.survey.MAX_REACHED", 30)
    with pytest.raises(CompileError, match="12 kernels call each other without end"):
        survey_cubin(many_kernels)


def test_a_table_of_all_kernels_is_read_once(many_kernels, monkeypatch):
    read = []
    monkeypatch.setattr(cubin_tables, "attributes", lambda section: read.append(section.name) or attributes(section))
    cubin_tables.cubin_tables.cache_clear()
    for i in range(12):
        assert load_kernel(many_kernels, f"k{i}").registers_per_thread > 8
    assert read == [".nv.info"]


def test_of_a_large_cubin_only_what_a_kernel_reaches_is_listed(many_kernels, monkeypatch):
    """PyTorch's cubins hold hundreds of kernels, of which a program launches a few."""
    names = kernels_of(parse_elf(many_kernels))
    images = [load_kernel(many_kernels, name) for name in names[:3]]
    whole = [decode(image, many_kernels, use_cache=False) for image in images]
    monkeypatch.setattr(listing, "_LARGE_BYTES", 0)
    monkeypatch.setattr(listing, "_MOST_ALONE", 2)
    asked = []
    monkeypatch.setattr(listing, "is_quick", lambda architecture: False)  # as of the first kernel of a process
    monkeypatch.setattr(listing, "listed", lambda *args, ask=listing.listed: asked.append(args[1]) or ask(*args))
    listing._kernels_asked.cache_clear()
    listing._listings.clear()
    assert [decode(image, many_kernels, use_cache=False) for image in images] == whole
    assert [bool(options) for options in asked] == [True, True, False]  # and after a few all the rest at once


def test_the_other_kernels_of_a_cubin_are_not_listed_again(many_kernels, monkeypatch):
    first, second = (load_kernel(many_kernels, name) for name in kernels_of(parse_elf(many_kernels))[:2])
    listing._listings.clear()
    monkeypatch.setattr(listing, "is_quick", lambda architecture: False)
    decode(first, many_kernels, use_cache=False)
    for name in ("is_quick", "raw_rows", "listed"):
        monkeypatch.setattr(listing, name, lambda *args: pytest.fail("what is in memory is listed again"))
    assert decode(second, many_kernels, use_cache=False)
