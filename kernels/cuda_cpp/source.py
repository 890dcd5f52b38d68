"""How a case names a kernel of CUDA C++.

Mental model: a :class:`CudaSource` says where the kernel is and how it is compiled; whoever runs the case compiles it,
with NVRTC or another compiler. Its method ``__cuda_cpp__`` gives that as plain keywords, so that a runner needs to know
no class of this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class CudaSource:
    """Kernel ``entry``, a name or a name expression as ``scan<128, 4>``, of ``file`` beside this module. ``options``:
    the compiler's.
    ``cooperative``: all its blocks are resident at once."""

    file: str
    entry: str
    options: tuple[str, ...] = ()
    cooperative: bool = False

    @property
    def __name__(self) -> str:
        return self.entry

    def __cuda_cpp__(self) -> dict[str, Any]:
        """``source`` (a path), ``entry``, ``options`` and ``cooperative``."""
        return {
            "source": str(HERE / self.file),
            "entry": self.entry,
            "options": self.options,
            "cooperative": self.cooperative,
        }
