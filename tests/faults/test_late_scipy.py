"""SciPy is loaded by whoever multiplies matrices in compiled code, not by every command."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import numpy as np
import gpusim.trace.compiled
import numba.np.arraymath  # as Numba does before it compiles or loads anything
from numba import njit

assert "scipy.linalg" not in sys.modules, "SciPy is loaded"

@njit
def product(a, b):
    return a @ b

print(product(np.eye(2), np.full((2, 2), 3.0))[0, 0])
"""


def test_a_users_own_product_of_matrices_loads_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr
