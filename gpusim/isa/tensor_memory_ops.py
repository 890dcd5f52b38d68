"""Codes of the instructions on tensor memory (tcgen05), which their lowerings choose and the emulator executes."""

from __future__ import annotations

#: What the instruction does (flags[3]).
PRODUCT, COPY, SHIFT, LOAD, STORE, ALLOCATE, RELEASE = range(7)

# ---- PRODUCT: flags[0] is a kind and these bits; flags[1] and [2] say where further operands lie ----
#: Of half, bfloat16 and TF32; of 8, 6 and 4-bit floats in bytes; of 8-bit integers; of packed 4-bit floats. Which
#: formats the instruction descriptor says.
HALVES, BYTES, INTEGERS, NIBBLES = range(4)
KIND_MASK = 3
WEIGHT_STATIONARY, TWO_BLOCKS, A_IN_TENSOR_MEMORY, SCALED, SCALES_4X, LANES_OFF = (4 << i for i in range(6))
#: A's rows are those one lane further; a mask says which columns of B are zeros.
A_SHIFTED, COLUMNS_OFF = 4 << 6, 4 << 7
#: Of a product that is noted: the accumulator counts.
ACCUMULATES = 1 << 40
#: Where the immediate scale-input-d stands: the accumulator is divided by this power of two.
SCALE_INPUT_SHIFT = 12

# ---- COPY: flags[0] is a shape, flags[1] what is unpacked to bytes, flags[2] whether both blocks of a pair copy ----
COPY_128x256, COPY_4x256, COPY_128x128, COPY_64x128_02_13, COPY_64x128_01_23, COPY_32x128 = range(6)
COPY_AS_IS, COPY_4_BITS, COPY_6_BITS = range(3)

# ---- LOAD, STORE: flags[0] is a shape, flags[1] how often it repeats along the columns, flags[2] bit 0: 16-bit
# elements are packed, bit 1: zeros are stored ----
LANES_32, LANES_16x64, LANES_16x128, LANES_16x256, FIRST_HALF, SECOND_HALF = range(6)
#: Registers of a shape that does not repeat.
SHAPE_REGISTERS = (1, 1, 2, 4, 1, 1)

#: What a load finds of each thread's registers (LDTM.STAT, sm_103): an operation, and of floats whether NaN wins.
STAT_MIN, STAT_MAX, STAT_MIN_ABS, STAT_MAX_ABS, STAT_OPERATIONS = range(5)
STAT_U32, STAT_S32, STAT_F32, STAT_F32_NAN = (STAT_OPERATIONS * i for i in range(4))

# ---- the size of it (PTX ISA, "Tensor Memory") ----
MEMORY_LANES, MEMORY_COLUMNS = 128, 512
#: What is allocated at once.
UNIT_COLUMNS = 32
UNITS = MEMORY_COLUMNS // UNIT_COLUMNS
LANE_SHIFT = 16
MEMORY_BYTES = MEMORY_LANES * MEMORY_COLUMNS * 4

# ---- why one of them cannot be executed (State.fault_bytes, where run functions answer BAD_TENSOR) ----
(
    FAULT_COLUMNS,
    FAULT_LANES,
    FAULT_EXHAUSTED,
    FAULT_SIZE,
    FAULT_FORMAT,
    FAULT_SHAPE,
    FAULT_DESCRIPTOR,
    FAULT_DEEP,
    FAULT_PEER,
    FAULT_GROUP,
    FAULT_COLUMN_SHIFT,
) = range(11)
