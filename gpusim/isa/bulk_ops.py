"""Numbers of bulk copies: what the lowering tells the emulator of an instruction, and the elements of tensors.

Mental model: the flags of a BULK micro-op, in the order of their columns, are what is moved and how (``FORM``), the
reduction, the type of its elements where no tensor map says it, and bits.
"""

from __future__ import annotations

# What is moved: boxes that a tensor map describes, or bytes.
(
    TENSOR_LOAD,
    TENSOR_STORE,
    TENSOR_REDUCE,
    TENSOR_PREFETCH,
    BYTES_LOAD,
    BYTES_STORE,
    BYTES_REDUCE,
    BYTES_PREFETCH,
    SHARED_COPY,
    SHARED_REDUCE,
) = range(10)
#: Bits of the first flag above what is moved: where of the rank, and of the mode.
RANK_SHIFT, MODE_SHIFT, FORM_MASK = 4, 8, 15
MODE_TILE, MODE_IM2COL, MODE_ROWS, MODE_WIDE, MODE_WIDE_128 = range(
    5
)  # MODE_ROWS: gather4 and scatter4; MODE_WIDE: im2col::w
#: Of a wide mode's third operand: where the offset along W stands, above the number of pixels of the halo.
WIDE_OFFSET_SHIFT = 11
#: Pixels of im2col::w::128, and behind how many of them its halo's begin.
WIDE_PIXELS, WIDE_GROUP = 128, 32
#: Bits of the fourth flag: a mask of blocks in the upper half of the third operand; mbarriers may be those of the block
#: beside (cta_group::2); a mask of bytes there; there is a third operand.
MULTICAST, PAIRED, BYTE_MASK, HAS_THIRD = 1, 2, 4, 8

# Elements of tensors, as CUtensorMapDataType numbers them.
(
    U8, U16, U32, S32, U64, S64, F16, F32, F64, BF16, F32_FTZ, TF32, TF32_FTZ, PACKED_4_IN_8, PACKED_4_IN_16, PACKED_6_IN_16
) = range(16)  # fmt: skip
