"""A check that the compilers work here: a kernel taken from Python to machine code and back to text.

Mental model: the kernel that does nothing goes through all tools that capture needs: Numba's typing, NVVM, nvJitLink, the
reader of cubins and nvdisasm. Whatever is missing or broken raises what it would raise in a capture.
"""

from __future__ import annotations

from gpusim.emulator.prepare import disassemble
from gpusim.measure.helpers import empty

CAPABILITY = (9, 0)


def check_toolchain() -> str:
    """What was done, in words. Raises ToolchainError and CompileError."""
    _, image, instructions = disassemble(empty, (), CAPABILITY, lines=False)
    return f"compiled a kernel for sm_{image.architecture} and disassembled its {len(instructions)} instructions"
