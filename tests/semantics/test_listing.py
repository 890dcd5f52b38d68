"""The texts of a kernel are the same whichever way the disassembler was asked."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim.frontend.registry import front_end_of
from gpusim.isa.binary import listing
from gpusim.isa.binary.cubin import KernelImage
from gpusim.isa.binary.kernel_texts import texts_of_raw
from gpusim.isa.binary.listing import code_texts


@cuda.jit
def quotients(x, y):
    """Calls and returns, infinities, a loop: targets of all kinds."""
    total = 0.0
    for i in range(x.size):
        total += x[i] / y[i]
    y[0] = total if total < np.inf else 1 / total


@cuda.jit(device=True, inline="never")
def half(x):
    return x / 2


@cuda.jit(debug=True, opt=False)
def calls_by_address(x, y):
    y[0] = half(x[0])


@cuda.jit
def says(x, y):
    print(x[0], y[0])


#: A table of branch targets, where the listing of a file says more than the code.
SWITCH = """
extern "C" __global__ void by_table(double *x, double *y) {
    switch (int(x[0])) {
        case 0: y[0] = sin(x[0]); break;
        case 1: y[1] = x[1] * x[2]; break;
        case 2: y[2] = x[1] / x[2]; break;
        case 3: y[0] = sqrt(x[3]); y[1] = 2; break;
        case 4: y[3] = exp(x[4]); break;
        case 5: atomicAdd(y, x[1]); break;
        case 6: y[5] = y[4] + x[0]; break;
        default: y[7] = x[7];
    }
}
"""
#: Lanes that meet: by a mask in a register, and by a call, which has a target, where only some have come.
MEETING = """
__device__ __noinline__ double sum(double v, unsigned mask) {
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(mask, v, o);
    return v;
}
extern "C" __global__ void meets(double *x, double *y) {
    double v = x[threadIdx.x];
    if (v > 1) v = sum(v, __ballot_sync(__activemask(), v > 2)); else __syncwarp(int(x[1]));
    y[threadIdx.x] = sum(v, 0xffffffff);
}
"""
ARRAYS = np.zeros(4), np.zeros(4)


def image_of(kernel: object, capability: tuple[int, int]) -> tuple[KernelImage, bytes]:
    binary = front_end_of(kernel).compile(kernel, ARRAYS, capability, lines=False)
    return binary.image, binary.cubin


def test_each_kernel_has_the_texts_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """However it was listed: by its file, as the first of a process is, or by its flat code, as the others are."""
    meets, by_table = gpusim.cuda_cpp(MEETING, "meets"), gpusim.cuda_cpp(SWITCH, "by_table")
    built = [image_of(each, (7, 5)) for each in (quotients, meets)]
    built += [image_of(each, (9, 0)) for each in (meets, quotients, by_table, says, calls_by_address)]
    with monkeypatch.context() as patch:
        patch.setattr(listing, "is_quick", lambda architecture: False)
        by_file = [code_texts(image, cubin, use_cache=False) for image, cubin in built]
    assert any(operands.startswith("@0x") for _, opcode, operands in by_file[0][0] if opcode.startswith("CALL"))
    assert any("CALL.ABS" in row[1] for row in by_file[-1][0])
    assert {"WARPSYNC", "WARPSYNC.COLLECTIVE"} <= {row[1] for texts in by_file[1:3] for row in texts[0]}
    listed: list[str] = []
    monkeypatch.setattr(listing, "is_quick", lambda architecture: True)
    monkeypatch.setattr(listing, "listed", lambda *args, ask=listing.listed: listed.append("by its file") or ask(*args))
    listing._listings.clear()
    assert [code_texts(image, cubin, use_cache=False) for image, cubin in built] == by_file
    assert len(listed) == 3  # tables, calls of the driver, and calls by address: there the file says more


def test_where_lanes_go_on_is_counted_from_their_section_and_a_mask_is_none() -> None:
    image = SimpleNamespace(sections=((".text.work", 0, 16), (".text.sum", 16, 32)), functions=())
    rows = [["", "NOP", ""], ["", "WARPSYNC.COLLECTIVE", "R8,0x20"], ["@P0", "WARPSYNC", "0x20"]]
    assert texts_of_raw(image, rows) == {0: rows[:1], 16: [["", "WARPSYNC.COLLECTIVE", "R8,0x10"], rows[2]]}  # pyright: ignore[reportArgumentType]
