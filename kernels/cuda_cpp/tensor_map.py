"""How a case names a tensor map (CUtensorMap) among a kernel's arguments.

Mental model: a :class:`TensorMap` is an array and the box of it that an instruction moves. Its method
``__tensor_map__`` gives that as plain keywords, so that a runner, which knows the array's device address and writes the
128 bytes, needs to know no class of this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class TensorMap:
    """Boxes of ``box`` elements (as the axes go) of ``data``; ``swizzle``: "none", "32B", "64B" or "128B"."""

    data: np.ndarray
    box: tuple[int, ...]
    swizzle: str = "128B"

    def __tensor_map__(self) -> dict[str, Any]:
        """``data``, ``box`` and ``swizzle``."""
        return {"data": self.data, "box": self.box, "swizzle": self.swizzle}
