"""A GPU with fewer SMs, and as much less of all that they share.

Mental model: where the blocks of a launch are alike and its waves many, a tenth of the SMs with a tenth of L2, of its
bandwidths and of DRAM's takes as long for a tenth of the blocks. There are as many fewer slices and channels, each
about as fast as it was: of as many, each a tenth as fast, a sector would take ten times as long on its bus, and a load
that waits for nobody ten times as long as on the GPU itself. What a smaller one does not keep is told by whoever uses
it: traffic that blocks share, and odd waves at the end.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gpusim.gpus.spec import GpuSpec


def cut_down(spec: GpuSpec, sms: int) -> GpuSpec:
    """``spec`` with ``sms`` SMs, from 1 to as many as it has. Slices and channels are the nearest number that
    partitions and each other divide, and their rates make up for the rest, so that sums are ``sms`` over those of all.
    Its name says the SMs. Raises ValueError."""
    if not 1 <= sms <= spec.sm_count:
        raise ValueError(f"{sms} of {spec.sm_count} SMs")
    share = sms / spec.sm_count
    chip, memory = spec.l2, spec.dram
    # Slices go in steps of what each partition has at least: one, or as many as share a channel.
    step = chip.partitions * max(1, chip.slices // memory.channels)
    slices = min(chip.slices, max(1, round(chip.slices * share / step)) * step)
    channels = max(1, memory.channels * slices // chip.slices)
    each = share * chip.slices / slices
    a_set = slices * chip.ways * chip.line_bytes
    l2 = replace(
        chip,
        slices=slices,
        total_bytes=max(a_set, math.floor(chip.total_bytes * share) // a_set * a_set),
        slice_bytes_per_ns=chip.slice_bytes_per_ns * each,
        slice_write_bytes_per_ns=chip.slice_write_bytes_per_ns * each,
        partition_link_bytes_per_ns=chip.partition_link_bytes_per_ns * share,
    )
    dram = replace(memory, channels=channels, peak_bytes_per_ns=memory.peak_bytes_per_ns * share)
    return replace(spec, name=f"{spec.name}[{sms} SMs]", sm_count=sms, l2=l2, dram=dram)
