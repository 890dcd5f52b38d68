"""What lies beyond the SMs of a GPU that is made from its datasheet: the ways to L2, its slices, and DRAM.

Mental model: part of :mod:`gpusim.gpus.make`, whose rules these are. ``stated`` and ``ruled`` make a (key, claim) of
what the datasheet says and of what a rule says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpusim.errors import SpecError
from gpusim.gpus.capability_rules import port_width, slice_width
from gpusim.gpus.datasheet import Datasheet
from gpusim.gpus.load import Claim
from gpusim.gpus.memory_kinds import MEMORY_KINDS, MemoryKind
from gpusim.gpus.spec import GpuSpec

KeyedClaim = tuple[str, Claim]
#: Makes a claim of (key, value, why).
Claiming = Callable[[str, object, str], KeyedClaim]


#: Rates of a pin outside of which a datasheet's figures are in other units than asked for: HBM2 has 2 Gbit/s (JESD235),
#: GDDR7 at most 48 (JESD239); the margins are guesses, for memories to come.
LEAST_PIN_GBIT_PER_S, MOST_PIN_GBIT_PER_S = 0.5, 128.0
#: Of the time that DRAM adds to an L2 hit, what no clock of the chip changes: least squares of "this plus cycles" over
#: A100, H100 PCIe, GH200, A40 and L40 (191.5, 169, 150.5, 160 and 140.3 ns at 1.41, 1.755, 1.98, 1.74 and 2.49 GHz)
#: give 69, without any one of them 50 to 82. DRAM itself takes about 30 of it (JEDEC: tRCD, tCL and a burst).
DRAM_OWN_NS = 69.0

#: Of DRAM's rate, what error codes take that lie in line, on whatever board has them: a40.toml has the measurement.
CODES_SHARE = 0.083
CODES_REASON = "error codes in line, as the board is delivered: as measured on an A40 and an L40S"
NO_CODES_REASON = "no error codes in line, as the board is delivered"


def network_claims(sheet: Datasheet, base: GpuSpec, like: str, ruled: Claiming) -> Iterator[KeyedClaim]:
    """What slices deliver, the link between partitions, and the SMs' ports."""
    capability = sheet.capability or base.capability
    clock_hz = sheet.boost_clock_mhz * 1e6
    faster = clock_hz / base.clock_hz
    wider = port_width(capability) / port_width(base.capability)
    more = sheet.sm_count / base.sm_count * base.l2.slices / slices_of(sheet, base) * wider
    why = f"{like}'s, by the ratio of the clocks"
    by_sms = f"{why} and of the SMs to the slices" + (f", ports {wider:g} times as wide" if wider != 1 else "")
    width = slice_width(capability)
    for key in ("slice_bytes_per_ns", "slice_write_bytes_per_ns"):
        by_clock = getattr(base.l2, key) * faster
        # Where the related GPU's curves show more than the width that is known of its slices, so much may come here
        # too.
        most = max(width * clock_hz / 1e9, by_clock * width / slice_width(base.capability))
        reason = why if more == 1 else by_sms if by_clock * more <= most else f"as much as a slice gives: {like}'s"
        yield ruled(f"l2.{key}", round(min(by_clock * more, most), 1), reason)
    # The link between the halves grows with the slices that it serves.
    more_slices = slices_of(sheet, base) / base.l2.slices
    if base.l2.partitions > 1 and faster * more_slices != 1:
        link = base.l2.partition_link_bytes_per_ns
        by_slices = f"{why} and of the slices" if more_slices != 1 else why
        yield ruled("l2.partition_link_bytes_per_ns", round(link * faster * more_slices, 1), by_slices)
    if wider != 1:
        for port in ("fill", "store"):
            width = port_width(capability)  # of the network's flits
            if wider < 1:  # on some GPUs less than the port's width comes in: that goes through half a port too
                width = min(width, getattr(base.l1, f"{port}_bytes_per_cycle"))
            yield ruled(f"l1.{port}_bytes_per_cycle", width, f"{like}'s, {wider:g} times as wide")


def miss_latency_ns(base: GpuSpec, faster: float, own_ns: float = DRAM_OWN_NS) -> float:
    """What DRAM adds to an L2 hit of a chip whose clock is ``faster`` than the related GPU's; ``own_ns`` of it are the
    DRAM's and its controller's."""
    known = base.dram.miss_latency_ns
    return round(min(known, own_ns) + max(0.0, known - own_ns) / faster, 1)


def _kind_of(sheet: Datasheet) -> tuple[MemoryKind, int]:
    """The kind of memory, and its channels. Raises SpecError for one that is not known."""
    memory = sheet.memory
    kind = MEMORY_KINDS.get(memory.kind)
    if kind is None:
        raise SpecError(f"{sheet.title}: memory.kind is {memory.kind!r}; known are {', '.join(MEMORY_KINDS)}")
    gbit_per_s = 8 * memory.gb_per_s / memory.bus_bits
    if not LEAST_PIN_GBIT_PER_S <= gbit_per_s <= MOST_PIN_GBIT_PER_S:
        raise SpecError(
            f"{sheet.title}: memory.gb_per_s {memory.gb_per_s:g} over memory.bus_bits {memory.bus_bits} is {gbit_per_s:.4g} Gbit/s a pin,"
            f" and no memory has below {LEAST_PIN_GBIT_PER_S:g} or above {MOST_PIN_GBIT_PER_S:g}: GB are bytes, and bits are those of the whole bus"
        )
    return kind, max(1, round(memory.bus_bits / kind.channel_bits))


def slices_of(sheet: Datasheet, base: GpuSpec) -> int:
    """How many slices L2 has."""
    kind, channels = _kind_of(sheet)
    return _dividing(sheet.memory.bus_bits / kind.slice_bits, channels, base.l2.partitions)


def memory_claims(
    sheet: Datasheet, base: GpuSpec, like: str, base_kind: str, stated: Claiming, ruled: Claiming
) -> Iterator[KeyedClaim]:
    """L2's slices and size, and DRAM. ``base_kind``: the related GPU's kind of memory, empty where it is not known."""
    memory = sheet.memory
    kind, channels = _kind_of(sheet)
    alike = (kind.banks, kind.row_bytes) == (base.dram.banks_per_channel, base.dram.row_bytes)
    same = memory.kind == base_kind if base_kind else alike
    slices = slices_of(sheet, base)
    if slices != base.l2.slices:
        yield ruled("l2.slices", slices, f"{memory.bus_bits} bits of {memory.kind}, a slice for each {kind.slice_bits}")
    set_bytes = slices * base.l2.ways * base.l2.line_bytes
    sets = max(1, round(sheet.l2_mib * 2**20 / set_bytes))
    whole = " (a whole number of sets)" if sets * set_bytes != sheet.l2_mib * 2**20 else ""
    yield stated("l2.total_bytes", sets * set_bytes, f"{sheet.l2_mib:g} MiB of L2{whole}")
    yield stated("dram.total_bytes", int(memory.gib * 2**30), f"{memory.gib:g} GB of {memory.kind}")
    yield stated(
        "dram.channels", channels, f"{memory.bus_bits} bits in channels of {kind.channel_bits} ({kind.source})"
    )
    yield stated("dram.banks_per_channel", kind.banks, kind.source)
    yield stated("dram.row_bytes", kind.row_bytes, kind.source)
    yield stated("dram.peak_bytes_per_ns", memory.gb_per_s, f"{memory.gb_per_s:g} GB/s")
    miss_ns = miss_latency_ns(base, sheet.boost_clock_mhz * 1e6 / base.clock_hz)
    if miss_ns != base.dram.miss_latency_ns:
        why = f"{like}'s; all but {DRAM_OWN_NS:g} ns by the ratio of the clocks"
        yield ruled("dram.miss_latency_ns", miss_ns, why)
    if not same:
        yield ruled("dram.efficiency", kind.efficiency, f"{memory.kind}: {kind.efficiency_source}")
        if kind.masked_writes != base.dram.masked_writes:
            does = "as on the RTX 4070" if kind.masked_writes else "no measurement at hand that it does"
            yield ruled("dram.masked_writes", kind.masked_writes, f"{memory.kind}: {does}")
    if memory.codes_in_line != (base.dram.codes_share > 0):
        share, reason = (CODES_SHARE, CODES_REASON) if memory.codes_in_line else (0.0, NO_CODES_REASON)
        yield ruled("dram.codes_share", share, reason)
    if memory.codes_in_line and not base.dram.streams_with_codes:
        yield ruled(
            "dram.streams_with_codes", True, f"{like}'s streams were measured without; as the board is delivered"
        )


def _dividing(wanted: float, channels: int, partitions: int) -> int:
    """The number of slices nearest to ``wanted`` that divides over partitions and that channels divide over, or the
    reverse."""
    fits = [n for n in range(partitions, 4 * channels + 1, partitions) if channels % n == 0 or n % channels == 0]
    if not fits:
        raise SpecError(f"{channels} DRAM channels divide over no number of L2 slices in {partitions} partitions")
    return min(fits, key=lambda n: (abs(n - wanted), n))
