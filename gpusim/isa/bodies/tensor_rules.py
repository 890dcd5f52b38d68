"""What tensor cores of each generation do to a sum of products, as the bodies read it.

Mental model: products are exact; a block of them and the accumulator are aligned to the largest exponent, cut to a
number of fraction bits and added; the sum is cut (FP32) or rounded to nearest (FP16) and goes into the next block.
How many bits and how long a block is a fact of the architecture (:mod:`gpusim.isa.architectures`).
"""

from __future__ import annotations

from dataclasses import astuple

import numpy as np

from gpusim.isa.architectures import nearest

#: Columns of the rules: the fields of TensorRules.
FRACTION_BITS, BLOCK_BYTES, FRACTION_BITS_8, RESULT_BITS_8, DEEP_NIBBLES, COLUMNS = range(6)


def tensor_rules(capability: tuple[int, int]) -> np.ndarray:
    """int32[COLUMNS] of a compute capability."""
    return np.array(astuple(nearest(capability).tensor), np.int32)
