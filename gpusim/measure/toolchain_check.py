"""A check that the compilers work here: a kernel taken from Python to machine code and back to text.

Mental model: the kernel that does nothing goes through all tools that capture needs: Numba's typing, NVVM, nvJitLink,
the reader of cubins and nvdisasm. Whatever is missing or broken raises what it would raise in a capture.
"""

from __future__ import annotations

from gpusim.frontend.registry import compile_kernel
from gpusim.measure.helpers import empty

CAPABILITY = (9, 0)


def check_toolchain() -> str:
    """What was done, in words. Raises ToolchainError and CompileError."""
    binary = compile_kernel(empty, (), CAPABILITY, lines=False)
    instructions = binary.decode()
    return f"compiled a kernel for sm_{binary.image.architecture} and disassembled its {len(instructions)} instructions"
