"""What limits a run, in the classes whose errors validation tells apart."""

from __future__ import annotations

from enum import StrEnum


class Limiter(StrEnum):
    """Mental model: the class of the unit that a run is bound by (:mod:`gpusim.engine.bound`): a ``PIPE`` (issue slots
    too), ``SHARED`` memory, the path through ``L1``, ``L2`` with the crossbar, ``DRAM`` bandwidth, ``LATENCY`` that
    nothing hides, or the ``LAUNCH`` itself."""

    PIPE = "pipe"
    SHARED = "shared"
    L1 = "L1"
    L2 = "L2"
    DRAM = "DRAM"
    LATENCY = "latency"
    LAUNCH = "launch"


#: The class of runs that compute on tensor cores, whatever limits them: beside those of the limiters.
TENSOR = "tensor"
#: The classes whose errors validation tells apart.
CLASSES = (*map(str, Limiter), TENSOR)
