"""Many kernels that are listed with one start of the disassembler have the texts that each has alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim.frontend.registry import front_end_of
from gpusim.io.cache_folder import CACHE_VARIABLE
from gpusim.isa.binary import disassembler
from gpusim.isa.binary.cubin import KernelImage
from gpusim.isa.binary.listing import code_texts, kept_texts_path
from gpusim.isa.binary.listing_together import list_together


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
ARRAYS = np.zeros(4), np.zeros(4)


def image_of(kernel: object, capability: tuple[int, int]) -> tuple[KernelImage, bytes]:
    binary = front_end_of(kernel).compile(kernel, ARRAYS, capability, lines=False)
    return binary.image, binary.cubin


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))


def test_each_kernel_has_the_texts_that_it_has_alone(empty_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = quotients, gpusim.cuda_cpp(SWITCH, "by_table"), says, calls_by_address
    built = [image_of(kernel, capability) for kernel in kernels for capability in ((7, 5), (9, 0))]
    alone = [code_texts(image, cubin, use_cache=False) for image, cubin in built]
    assert any(operands.startswith("@0x") for _, opcode, operands in alone[0][0] if opcode.startswith("CALL"))
    assert all(any("CALL.ABS" in row[1] for row in texts[0]) for texts in alone[-2:])
    # twice the same kernel is listed once; the others begin at another byte than alone
    images = [image for image, _ in built]
    assert list_together([images[4], images[0], *images]) == 2
    kept = [path is not None and path.exists() for path in map(kept_texts_path, images)]
    # tables, and calls of the driver or by address, are left to be listed alone
    assert kept == [True, True, *[False] * 6]
    with monkeypatch.context() as patch:
        patch.setattr(disassembler, "find_nvdisasm", lambda: pytest.fail("what is kept is listed again"))
        assert [code_texts(*each) for each in built[:2]] == alone[:2]
        assert list_together(images[:2]) == 0
    assert [code_texts(*each) for each in built[2:]] == alone[2:]


def test_a_disassembler_that_fails_leaves_all_to_be_listed_alone(
    empty_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, cubin = image_of(quotients, (9, 0))
    with monkeypatch.context() as patch:
        patch.setattr(disassembler, "find_nvdisasm", lambda: "/nowhere/nvdisasm")
        assert list_together([image]) == 0
    assert code_texts(image, cubin)
