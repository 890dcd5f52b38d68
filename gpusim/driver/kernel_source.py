"""What a process knows of its kernels beyond their machine code: nothing, unless a compiler within it says more.

Mental model: the driver asks for names and for source lines; where Numba is in the process, it answers
(:mod:`gpusim.driver.lines`). A program that is not Python has no Numba, and is spared loading it.
"""

from __future__ import annotations


class KernelSource:
    """Answers that nothing is known."""

    def name_of(self, symbol: str) -> str | None:
        """The kernel's name in the program's source; None where that is not known."""
        return None

    def build(self, symbol: str) -> bytes:
        """The kernel's cubin with line information, or nothing where it cannot be had."""
        return b""

    def install(self) -> None:
        """Look on from now on as kernels are compiled."""

    def remove(self) -> None:
        """No longer."""
