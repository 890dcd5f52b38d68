"""A cubin is untrusted input: whatever is broken in it, the answer is a CompileError and nothing else."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cuda

from gpusim.errors import CompileError
from gpusim.frontend.numba.build import argument_types, build
from gpusim.isa.binary.cubin import kernels_of, load_kernel
from gpusim.isa.binary.elf import parse_elf


@cuda.jit
def add_one(values):
    i = cuda.grid(1)
    values[i] += 1


@pytest.fixture(scope="module")
def cubin():
    return build(add_one, argument_types(add_one, (np.ones(4),)), (9, 0)).cubin


def test_the_sound_one_loads(cubin):
    assert load_kernel(cubin).code
    assert len(kernels_of(parse_elf(cubin))) == 1


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"MZ" + bytes(100), b"\x7fELF\x01\x01" + bytes(100)])
def test_what_is_no_cubin_is_refused(content):
    with pytest.raises(CompileError, match="cubin"):
        load_kernel(content)


def test_a_kernel_that_is_not_in_it_is_refused_by_name(cubin):
    with pytest.raises(CompileError, match="no kernel missing"):
        load_kernel(cubin, "missing")


@given(st.data())
def test_truncation_and_flipped_bytes_never_escape(cubin, data):
    if data.draw(st.booleans()):
        broken = cubin[: data.draw(st.integers(0, len(cubin) - 1))]
    else:
        at = data.draw(st.integers(0, len(cubin) - 1))
        broken = cubin[:at] + bytes([data.draw(st.integers(0, 255))]) + cubin[at + 1 :]
    try:
        load_kernel(broken)
    except CompileError as error:
        assert "\n" not in str(error)


@given(st.integers(0, 63), st.integers(0, 255))
def test_damaged_headers_never_escape(cubin, at, value):
    broken = cubin[:at] + bytes([value]) + cubin[at + 1 :]
    with suppress(CompileError):
        load_kernel(broken)
