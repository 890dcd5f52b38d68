"""A GPU with fewer SMs, and as much less of all that they share.

Mental model: where the blocks of a launch are alike and its waves many, a tenth of the SMs with a tenth of L2, of its bandwidths and of DRAM's takes as
long for a tenth of the blocks. What that does not keep is told by whoever uses it: traffic that blocks share, and odd waves at the end.
"""

from __future__ import annotations

from dataclasses import replace

from gpusim.gpus.spec import GpuSpec


def cut_down(spec: GpuSpec, sms: int) -> GpuSpec:
    """``spec`` with ``sms`` SMs, from 1 to as many as it has. The L2 keeps its slices, each with as many fewer sets; its name says the SMs."""
    if not 1 <= sms <= spec.sm_count:
        raise ValueError(f"{sms} of {spec.sm_count} SMs")
    share = sms / spec.sm_count
    chip = spec.l2
    a_set = chip.slices * chip.ways * chip.line_bytes
    l2 = replace(
        chip,
        total_bytes=max(a_set, int(chip.total_bytes * share) // a_set * a_set),
        slice_bytes_per_ns=chip.slice_bytes_per_ns * share,
        slice_write_bytes_per_ns=chip.slice_write_bytes_per_ns * share,
        partition_link_bytes_per_ns=chip.partition_link_bytes_per_ns * share,
    )
    dram = replace(spec.dram, peak_bytes_per_ns=spec.dram.peak_bytes_per_ns * share)
    return replace(spec, name=f"{spec.name}[{sms} SMs]", sm_count=sms, l2=l2, dram=dram)
