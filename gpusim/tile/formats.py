"""Number formats that weights and activations have in memory, beside the operands that the tensor cores multiply.

Mental model: a format is what an element takes in memory, scales of its block included, and the products that it is
multiplied by. Formats of blocks are multiplied with their scales where the tensor cores take them (``mxfp8``,
``nvfp4``, ``mxfp4``); of a weight-only format (``_wo``) the kernel widens the weights to 16 bits on their way into the
tensor cores.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.errors import SpecError
from gpusim.tile.machine import OPERANDS


@dataclass(frozen=True)
class Format:
    """``operands``: of the products, a key of :data:`gpusim.tile.machine.OPERANDS`; ``a_bytes``, ``b_bytes``: of an
    element of activations and weights in memory, scales included; ``library``: the row of ``library.toml`` and
    ``moe.toml`` that its kernels have."""

    name: str
    operands: str
    a_bytes: float
    b_bytes: float
    library: str

    @property
    def weight_only(self) -> bool:
        """Whether activations keep their 16 bits and weights have fewer."""
        return self.a_bytes == 2.0 > self.b_bytes

    @property
    def tensor_scaled(self) -> bool:
        """Whether the tensor cores take the scales of blocks, which then lie in tiles of 128 rows (PTX ISA, tcgen05,
        block scaling)."""
        return not self.weight_only and self.operands in ("mxfp8", "fp4") and self.a_bytes > OPERANDS[self.operands][0]


_BLOCK = 128
FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        *(Format(name, name, size, size, name) for name, (size, _) in OPERANDS.items()),
        # DeepSeek-V3, section 3.3.2: FP32 scales of 1 x 128 activations and of 128 x 128 weights, multiplied outside
        # the tensor cores.
        Format("fp8_block", "fp8", 1 + 4 / _BLOCK, 1 + 4 / _BLOCK**2, "fp8_block"),
        # OCP Microscaling Formats (MX) 1.0, section 5: an E8M0 scale of one byte for 32 elements. NVFP4: an E4M3 scale
        # for 16 (PTX ISA, block scaling).
        Format("mxfp8", "mxfp8", 1 + 1 / 32, 1 + 1 / 32, "fp8"),
        Format("nvfp4", "fp4", 0.5 + 1 / 16, 0.5 + 1 / 16, "nvfp4"),
        Format("mxfp4", "fp4", 0.5 + 1 / 32, 0.5 + 1 / 32, "nvfp4"),
        # Weights of MXFP4 beside activations of MXFP8: tensor cores multiply both at the rate of 8 bits (PTX ISA,
        # tcgen05.mma, kind::mxf8f6f4).
        Format("mxfp4_mxfp8", "mxfp8", 1 + 1 / 32, 0.5 + 1 / 32, "fp8"),
        # Of weights alone: products in 16 bits, of the kind that every tensor core has. A scale for each column: less
        # than a thousandth of the weights.
        Format("int8_wo", "fp16", 2.0, 1.0, "int8_wo"),
        # GPTQ and AWQ: 16 bits of scale for 128 elements of a column (Frantar et al. (2022), section 4; Lin et al.
        # (2023), section 5).
        Format("int4_wo", "fp16", 2.0, 0.5 + 2 / _BLOCK, "int4_wo"),
        Format("mxfp4_wo", "fp16", 2.0, 0.5 + 1 / 32, "mxfp4_wo"),
        # llama.cpp's (ggml-org/llama.cpp, ggml/src/ggml-common.h: bytes of a block): weights in blocks of 32 (or 256,
        # Q6_K) with scales in 16 bits, multiplied in 8 bits with activations of 32 elements and two halves
        # (block_q8_1). Q4_K_M mixes Q4_K with Q6_K: 4.8 bits an element of layers, by its files of Llama 3 8B and 70B
        # (4.58 and 39.59 GiB, tables of 4.5 and 6.6 bits in them).
        Format("q4_0", "int8", 36 / 32, 18 / 32, "ggml"),
        Format("q8_0", "int8", 36 / 32, 34 / 32, "ggml"),
        Format("q4_k_m", "int8", 36 / 32, 4.8 / 8, "ggml"),
        Format("q6_k", "int8", 36 / 32, 210 / 256, "ggml"),
    )
}
#: Formats with scales for blocks that a plain number format has if nothing else is said.
BLOCK_FORMATS = {"fp8": "fp8_block", "fp4": "nvfp4"}


def format_of(name: str, block_scaled: bool = False) -> Format:
    """The format of that name; ``block_scaled``: with scales for blocks, where the name alone has none (fp8:
    DeepSeek's, fp4: NVFP4's). Raises SpecError for one that is not known or has no such scales."""
    if name not in FORMATS:
        raise SpecError(f"a number format is {name!r}: known are {', '.join(FORMATS)}")
    if block_scaled and name not in BLOCK_FORMATS and name not in BLOCK_FORMATS.values():
        raise SpecError(f"operands of {name!r} have no block scales: {', '.join(BLOCK_FORMATS)} have")
    return FORMATS[BLOCK_FORMATS.get(name, name) if block_scaled else name]
