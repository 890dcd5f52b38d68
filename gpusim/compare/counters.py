"""Counters beside cycles: whether a launch takes its time for the reason that the model says.

Mental model: counters that follow from the machine code and the addresses alone (instructions, requests, sectors asked
for) must agree almost exactly; counters that follow from caching and timing may scatter. Names are Nsight Compute's on
both sides. Cycles that agree while a counter does not are *right for the wrong reason*, and that is a finding: the next
change of either side will show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpusim.compare.stalls import stall_metrics
from gpusim.io.percent import signed_percent
from gpusim.model.stall_reasons import STALL_NAMES

#: Counter -> allowed difference in percent. The exact ones leave room for what the profiler itself adds.
EXACT_PERCENT, CACHED_PERCENT = 0.5, 10.0
_EXACT = (
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "smsp__inst_executed_op_shfl.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "sm__warps_launched.sum",
    "sm__ctas_launched.sum",
)
_CACHED = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__t_output_wavefronts_pipe_lsu.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__m_l1tex2xbar_write_sectors.sum",
    "lts__t_requests.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "lts__t_sectors_op_atom.sum",
    "lts__t_sectors_op_red.sum",
    "lts__t_sectors_lookup_hit.sum",
    "lts__t_sectors_lookup_miss.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
)
#: Stall reasons are sampled on silicon and follow from timing: they may scatter most. A guess.
STALL_PERCENT = 25.0
ALLOWED_PERCENT = {
    **dict.fromkeys(_EXACT, EXACT_PERCENT),
    **dict.fromkeys(_CACHED, CACHED_PERCENT),
    **dict.fromkeys(stall_metrics(dict.fromkeys(STALL_NAMES, 1)), STALL_PERCENT),
}
#: Warps an issue that wait for a reason: differences up to this are sampling noise. A guess.
NEGLIGIBLE_WARPS = 0.2
#: Differences up to so many counts (of bytes: times 32) mean nothing: the profiler and the driver touch memory too. A
#: guess.
NEGLIGIBLE_COUNTS = 512
_BYTES_PER_COUNT = 32


@dataclass(frozen=True)
class CounterDifference:
    """One counter that both sides have; ``error_percent`` is signed and relative to the measured value (infinite if
    that is 0); ``agrees`` within what this counter allows."""

    counter: str
    simulated: float
    measured: float
    error_percent: float
    agrees: bool


def compare_counters(simulated: Mapping[str, float], measured: Mapping[str, float]) -> list[CounterDifference]:
    """Every counter with a known tolerance that both sides have, in the order of the machine."""
    return [
        _difference(name, simulated[name], measured[name], allowed)
        for name, allowed in ALLOWED_PERCENT.items()
        if name in simulated and name in measured
    ]


def _difference(name: str, simulated: float, measured: float, allowed_percent: float) -> CounterDifference:
    difference = simulated - measured
    error = 100.0 * difference / measured if measured else (0.0 if not difference else float("inf"))
    negligible = NEGLIGIBLE_COUNTS * (_BYTES_PER_COUNT if "bytes" in name else 1)
    if allowed_percent == EXACT_PERCENT:
        negligible = 0
    elif allowed_percent == STALL_PERCENT:
        negligible = NEGLIGIBLE_WARPS
    agrees = abs(error) <= allowed_percent or abs(difference) <= negligible
    return CounterDifference(name, simulated, measured, error, agrees)


def wrong_reason(differences: list[CounterDifference]) -> str:
    """The finding's sentence for a launch whose cycles agree, empty if its counters do too."""
    off = sorted((d for d in differences if not d.agrees), key=lambda d: -abs(d.error_percent))
    if not off:
        return ""
    worst = ", ".join(f"{d.counter} {signed_percent(d.error_percent, '.0f')}" for d in off[:3])
    more = f" and {len(off) - 3} more" if len(off) > 3 else ""
    return f"right for the wrong reason: cycles agree, but {worst}{more}"
