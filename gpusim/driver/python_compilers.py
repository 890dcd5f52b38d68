"""The emulated driver's part in a Python process: Numba, which looks for a driver early and compiles kernels itself.

Mental model: while installed, Numba finds the driver, its kernels are remembered with their source, and its compilers
let Ctrl-C through. Only a process that is Python loads this, since Numba's CUDA target takes longer to load than all of
the driver.
"""

from __future__ import annotations

from numba.cuda.cudadrv import driver as numba_driver  # pyright: ignore[reportMissingImports]

from gpusim.driver.interrupts import Interrupts
from gpusim.driver.lines import LineSource
from gpusim.driver.toolchain import InterruptibleCompilers


class PythonCompilers(LineSource):
    """The source of kernels that Numba compiles in this process."""

    def __init__(self, interrupts: Interrupts) -> None:
        super().__init__()
        self._compilers = InterruptibleCompilers(interrupts)

    def install(self) -> None:
        """From now on."""
        if numba_driver.driver.initialization_error is not None:
            numba_driver.driver.__init__()  # it looked for a driver before there was one
        super().install()
        self._compilers.install()

    def remove(self) -> None:
        """Leave Numba as it was."""
        super().remove()
        self._compilers.remove()
