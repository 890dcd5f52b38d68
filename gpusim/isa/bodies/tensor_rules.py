"""What tensor cores of each generation do to a sum of products: facts, with their sources.

Mental model: products are exact; a block of them and the accumulator are aligned to the largest exponent, cut to a
number of fraction bits and added; the sum is cut (FP32) or rounded to nearest (FP16) and goes into the next block.
A generation is three numbers: the fraction bits, the bytes of one row of A that make up a block, and the fraction bits
for 8-bit floats.

Sources: Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores", arXiv 2511.10909 (bitwise
equal to V100, T4-class, A100, Ada, H100, B200 and RTX Blackwell parts: fraction bits 24, 24, 24, 25, 25, 25 from Turing on;
8 halves a block on Ampere and Ada, 16 from Hopper on; FP8 on Ada 13 bits, and 13 in the result). Earlier and in accord
but for Turing's block, which they give as 4: Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores",
PeerJ CS 7:e330, 2021.
"""

from __future__ import annotations

import numpy as np

#: Columns of the rules as the bodies read them.
FRACTION_BITS, BLOCK_BYTES, FRACTION_BITS_8, RESULT_BITS_8, COLUMNS = range(5)


def tensor_rules(capability: tuple[int, int]) -> np.ndarray:
    """int32[COLUMNS] of a compute capability: fraction bits of the aligned sum, bytes of k a block, and fraction bits of
    sum and result for 8-bit floats."""
    hopper = capability >= (9, 0)
    fraction = 25 if hopper else 24
    # Hopper computes 8-bit mma.sync with HMMA; its 13 bits belong to wgmma, which is not emulated.
    eight = 13 if capability == (8, 9) else fraction
    return np.array([fraction, 32 if hopper else 16, eight, 13 if capability == (8, 9) else 23], np.int32)
