"""Functions of the runtime whose answer never changes: the library itself tells it, without Python.

Mental model: they are called before Python has been started for the device (Numba asks for the version when it is
imported) and after it has gone (PyTorch asks for the device when its last events and streams are freed), and often
between.
"""

from __future__ import annotations

from gpusim.driver.versions import runtime_version


def constants(major: int) -> dict[str, int]:
    """Function -> the number that it writes through its first argument, in the runtime of CUDA ``major``. Device 0 is
    current until a program chooses another, which then answers for itself (:mod:`gpusim.cudart.runtime`)."""
    return {"cudaRuntimeGetVersion": runtime_version(major), "cudaGetDevice": 0}
