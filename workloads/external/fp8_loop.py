"""What the measured program of the FP8 products launches around each product, in its order.

Mental model: every repetition makes its tensors anew: both operands are drawn in bfloat16 and multiplied in bfloat16 by
the library of the framework, for a reference; then element-wise kernels cast them, A by the 128 of a row, B by blocks
of 128 x 128, each step a kernel that reads and writes all of it; last the product runs. A repetition of a large shape
lasts half a millisecond to four, so the board's power limit acts on its mean. That a kernel that draws numbers is as
fast as one that writes, and that the host keeps up, are guesses; small reductions of scales are left out.

Source: deepseek-ai/DeepGEMM, tests/test_core.py of February 2025 (construct(), per_token_cast_to_fp8(),
per_block_cast_to_fp8()).
"""

from __future__ import annotations

from dataclasses import dataclass

#: Bytes that each kernel reads and writes an element: absolute values in bfloat16, turned into single precision,
#: largest of each block, multiplied, turned into E4M3.
_CAST = ((2, 2), (2, 4), (4, 0), (2, 4), (4, 1))
#: B is copied into zeros of whole blocks before.
_PAD = ((0, 2), (2, 2))
_BLOCK = 128


@dataclass(frozen=True)
class Product:
    """A library's product in bfloat16, C of ``rows`` x ``columns``."""

    rows: int
    columns: int
    depth: int


@dataclass(frozen=True)
class Elementwise:
    """A kernel that goes over its operands once, with so many bytes of all elements together."""

    read_bytes: int
    written_bytes: int


def operators_around(m: int, n: int, k: int) -> tuple[Product | Elementwise, ...]:
    """Of one repetition with C of m x n over k, all but the product itself."""
    padded = -(-n // _BLOCK) * _BLOCK * k

    def each(count: int, *passes: tuple[int, int]) -> list[Elementwise]:
        return [Elementwise(count * read, count * written) for read, written in passes]

    drawn = each(m * k, (0, 2)) + each(n * k, (0, 2))
    casts = each(m * k, *_CAST) + each(padded, *_PAD, *_CAST)
    cut = each(n * k, (1, 1)) if padded != n * k else []
    return (*drawn, Product(m, n, k), *casts, *cut)
