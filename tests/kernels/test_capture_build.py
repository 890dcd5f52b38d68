"""Is the machine code the one that a GPU would run, and does the reader understand the whole of it?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda.codegen import CUDACodeLibrary

from gpusim.capturing import capture
from gpusim.frontend.numba import helper_names
from gpusim.frontend.numba.build import argument_types, build
from gpusim.frontend.registry import compile_kernel
from gpusim.isa.architectures import BUILT, SURVEYED
from gpusim.isa.binary.cubin import load_kernel
from gpusim.isa.binary.decode import decode
from gpusim.isa.binary.elf import parse_elf
from gpusim.isa.form import Kind

#: Nightly: whose kernels other tests run, or the corpus decodes, every day, and which no test below compiles.
ELSEWHERE = {row.capability for row in SURVEYED} - {(8, 0), (9, 0), (12, 0)}
ARCHITECTURES = [
    pytest.param(row.capability, marks=pytest.mark.nightly if row.capability in ELSEWHERE else ()) for row in BUILT
]


@cuda.jit(device=True)
def polynomial(x):
    return x * x + float32(3) * x


@cuda.jit
def apply(values, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = polynomial(values[i]) / (1 + math.sqrt(values[i]))


@cuda.jit
def with_shared(out):
    room = cuda.shared.array(48, float32)
    room[cuda.threadIdx.x] = 1
    cuda.syncthreads()
    out[0] = room[0]


ARGUMENTS = (np.ones(8, np.float32), np.ones(8, np.float32))


@pytest.mark.by_day(4)
@pytest.mark.parametrize("capability", ARCHITECTURES)
def test_every_architecture_compiles_and_decodes(capability):
    binary = compile_kernel(apply, ARGUMENTS, capability, lines=False)  # lines: the test below
    image, instructions = binary.image, binary.decode()
    assert image.architecture == capability[0] * 10 + capability[1]
    assert image.registers_per_thread > 0 and len(image.parameters) == 14
    assert sum(p.size for p in image.parameters) <= image.parameter_bytes
    assert {i.mnemonic for i in instructions} >= {"EXIT", "LDG", "STG"}
    assert len(instructions) * 16 == sum(size for _, _, size in image.sections)
    assert all(o.kind != Kind.OTHER for i in instructions for o in i.operands)


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (12, 0)])
def test_line_information_leaves_the_code_as_it_is(capability):
    built = build(apply, argument_types(apply, ARGUMENTS), capability)
    assert built.line_cubin and built.line_cubin != built.cubin
    plain, lined = load_kernel(built.cubin), load_kernel(built.line_cubin)
    assert plain.code == lined.code and plain.sha256 == lined.sha256
    image = load_kernel(built.cubin, built.entry_name, built.line_cubin)
    first = apply.py_func.__code__.co_firstlineno
    lines = {line for file, line in image.lines.values() if file.endswith("test_capture_build.py")}
    assert {first + 2, first + 4} <= lines


def test_two_architectures_in_one_process_do_not_mix():
    values = np.arange(8, dtype=np.float32)
    expected = (values * values + 3 * values) / (1 + np.sqrt(values))
    for gpu in ("sm_80", "sm_120", "sm_90", "sm_80"):
        out = np.zeros(8, np.float32)
        trace = capture(apply, 1, 32, (values, out), gpu=gpu)
        np.testing.assert_allclose(out, expected, rtol=1e-6)
        assert trace.launch.capability == (int(gpu[3:-1]), int(gpu[-1]))


def test_a_kernel_that_names_no_helper_is_the_same_without_its_ptx(monkeypatch):
    made = []
    plain = CUDACodeLibrary.get_asm_strs
    monkeypatch.setattr(CUDACodeLibrary, "get_asm_strs", lambda self, cc=None: made.append(cc) or plain(self, cc))
    monkeypatch.setenv("GPUSIM_CACHE_DIR", "")
    codes = []
    for helpers in (helper_names.HELPERS, ("llvm",)):  # what every kernel's LLVM code names
        monkeypatch.setattr(helper_names, "HELPERS", helpers)
        again = cuda.jit(apply.py_func)
        codes.append(load_kernel(build(again, argument_types(again, ARGUMENTS), (9, 0), lines=False).cubin).code)
        assert bool(made) == (helpers == ("llvm",))
    assert codes[0] == codes[1]


def test_a_kernel_that_needs_a_helper_gets_it():
    @cuda.jit
    def rows(x, out):
        out[0] = x.reshape((2, 4))[1, 2]

    out = np.zeros(1, np.float32)
    capture(rows, 1, 1, (np.arange(8, dtype=np.float32), out), gpu="sm_90")
    assert out[0] == 6


def test_the_dispatcher_is_left_as_it_was():
    before = (dict(polynomial.overloads), dict(apply.overloads), type(apply).compile_device)
    capture(apply, 1, 32, ARGUMENTS, gpu="sm_90")
    assert (dict(polynomial.overloads), dict(apply.overloads), type(apply).compile_device) == before


def test_static_shared_memory_leaves_the_systems_part_out():
    for capability in ((8, 0), (9, 0), (12, 0)):
        image = compile_kernel(with_shared, (np.zeros(1, np.float32),), capability, lines=False).image
        assert image.shared_bytes == 48 * 4


def test_a_build_is_made_once_and_its_hash_does_not_count_builds():
    types = argument_types(apply, ARGUMENTS)
    assert build(apply, types, (9, 0)) is build(apply, types, (9, 0))

    def fresh():
        again = cuda.jit(apply.py_func)
        return load_kernel(build(again, types, (9, 0)).cubin).sha256

    assert fresh() == fresh()


def test_the_disassembly_cache_is_used_and_survives_damage(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    built = build(apply, argument_types(apply, ARGUMENTS), (9, 0))
    image = load_kernel(built.cubin)
    first = decode(image, built.cubin)
    (stored,) = tmp_path.glob("sass/*.json")
    monkeypatch.setattr("gpusim.isa.binary.disassembler.find_nvdisasm", lambda: "/nowhere/nvdisasm")
    assert decode(image, built.cubin) == first
    monkeypatch.undo()
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    content = stored.read_bytes()
    for damage in (b"", b"{", content[: len(content) // 2], b'{"0": [["a"]]}', b"[]", b'{"0": 7}'):
        stored.write_bytes(damage)
        assert decode(image, built.cubin) == first
        assert stored.read_bytes() == content


@pytest.mark.parametrize("gpu", ["sm_75", *(pytest.param(sm, marks=pytest.mark.nightly) for sm in ("sm_90", "sm_120"))])
def test_scalars_and_tuples_take_their_places(gpu):
    @cuda.jit
    def mixed(flag, small, wide, single, double, pair, out):
        out[0] = 1 if flag else 0
        out[1] = small
        out[2] = wide
        out[3] = single
        out[4] = double
        out[5] = pair[0] + pair[1]

    out = np.zeros(6)
    args = (True, np.int8(-5), -(2**40), np.float32(0.5), 0.1, (3, 2.5), out)
    capture(mixed, 1, 1, args, gpu=gpu)
    assert out.tolist() == [1, -5, -(2.0**40), 0.5, 0.1, 5.5]


def test_the_section_table_is_read():
    built = build(apply, argument_types(apply, ARGUMENTS), (9, 0))
    elf = parse_elf(built.cubin)
    assert elf.named(f".text.{built.entry_name}") is not None
