"""Relocation types of cubins: which bits of a place take which part of a value.

Mental model: the numbers were read off cubins by experiment and agree with the names that NVIDIA's cuobjdump prints for
them (R_CUDA_*).
"""

from __future__ import annotations

RELOCATE_WORD32 = (1, 3)
RELOCATE_WORD64 = (2, 4)
RELOCATE_LOW32_AT_32 = 0x38
RELOCATE_HIGH32_AT_32 = 0x39
#: The halves of what stands for a kernel that code launches.
RELOCATE_KERNEL_LOW32_AT_32, RELOCATE_KERNEL_HIGH32_AT_32 = 0x3E, 0x3F
RELOCATE_KERNEL = (RELOCATE_KERNEL_LOW32_AT_32, RELOCATE_KERNEL_HIGH32_AT_32)
# Targets of CALL.ABS: the disassembler names them, so that the code itself needs no patch.
RELOCATE_CALL = (0x3A, 0x4B)
#: What stands for a kernel as a whole, in data.
RELOCATE_DESCRIPTOR = 0x23
#: An address as the program sees it, whole or in halves.
RELOCATE_ADDRESS = (*RELOCATE_WORD32, *RELOCATE_WORD64, RELOCATE_LOW32_AT_32, RELOCATE_HIGH32_AT_32)
