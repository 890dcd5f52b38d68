"""One rank's trace, from events in any order to rows, times of its GPUs, and facts.

Mental model: an importer tells of ranges, operators, launch calls, kernels and copies as it meets them; nothing of it
is kept but small records, on the disk where there are many. At the end they are put in order three times: host calls by
time (what was around each launch), work by correlation (which call launched it), work by start (what ran when), and
each order is walked once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from gpusim.production.facts import Fact
from gpusim.production.file import DeviceTime, Production, Source
from gpusim.production.imports.device_work import COMMUNICATION, COMPUTATION, COPY, WORK, DeviceWork
from gpusim.production.imports.host_calls import OPERATOR, RANGE, HostCalls, is_phase, phase_name
from gpusim.production.imports.names_seen import Seen, cut
from gpusim.production.imports.row_sums import RowSums
from gpusim.production.imports.sorted_records import SortedRecords
from gpusim.production.launches import OTHER, Launch, LaunchTotal, kept, summed
from gpusim.production.timing.collectives import Collectives
from gpusim.production.timing.idle import IdleTime
from gpusim.production.timing.queues import Delays, changes, queue_facts, sorted_changes
from gpusim.production.timing.spans import DeviceSpans

MOST_LAUNCH_ROWS, MOST_PHASES, MOST_OPERATORS, MOST_THREADS = 100_000, 10_000, 100_000, 1 << 20
MOST_NOTES = 16
Operator = tuple[str, str, str]


_RANK = re.compile(r"rank[-_]?(\d{1,9})", re.I)


def rank_in(name: str) -> int:
    """The rank that a file's name tells ("rank3.json", "trace_rank_3.sqlite"), else -1."""
    found = _RANK.search(name)
    return int(found[1]) if found else -1


class Assembly:
    """Of one process. ``collectives`` gather over all ranks that are imported together."""

    def __init__(self, name: str, form: str, rank: int = -1, collectives: Collectives | None = None) -> None:
        self.name, self.form, self.rank, self.collectives = name, form, rank, collectives
        self.rows: Seen[Launch] = Seen(Launch(OTHER), MOST_LAUNCH_ROWS)
        self.phases: Seen[str] = Seen("", MOST_PHASES)
        self.operators: Seen[Operator] = Seen(("", "", ""), MOST_OPERATORS)
        self.devices: list[tuple[str, str]] = []
        self.damaged = self.launches = 0
        self.notes: list[str] = []
        self._threads: Seen[object] = Seen(None, MOST_THREADS)
        self._host, self._work = HostCalls(), DeviceWork()

    def device(self, device: str, gpu: str) -> int:
        """The number of a GPU that is told for the first time, or again."""
        if (device, gpu) not in self.devices:
            self.devices.append((device, gpu))
        return self.devices.index((device, gpu))

    def range(self, begin_ns: int, end_ns: int, thread: object, name: str) -> None:
        """A range on a host thread."""
        if is_phase(name):
            number = self.phases.number(cut(phase_name(name)))
            self._host.span(RANGE, begin_ns, end_ns, self._threads.number(thread), number)

    def operator(self, begin_ns: int, end_ns: int, thread: object, operator: Operator) -> None:
        """A framework's operator on a host thread: name, shapes and dtypes of its inputs."""
        number = self.operators.number(operator)
        self._host.span(OPERATOR, begin_ns, end_ns, self._threads.number(thread), number)

    def call(self, begin_ns: int, thread: object, correlation: int) -> None:
        """A call that launches, or may."""
        self._host.call(begin_ns, self._threads.number(thread), correlation)

    def work(
        self, launch: Launch, begin_ns: int, end_ns: int | None, correlation: int | None, device: int, stream: int, moved_bytes: int = 0
    ) -> None:  # fmt: skip
        """A kernel or copy; ``launch`` without phase and operator. A time that cannot be counts as not known."""
        if end_ns is not None and end_ns < begin_ns:
            end_ns = None
            self.damaged += 1
        if launch.kind in ("memcpy", "memset"):
            kind = COPY
        else:
            kind = COMMUNICATION if launch.collective is not None or is_communication(launch.kernel) else COMPUTATION
        self.launches += 1
        row = self.rows.number(launch)
        self._work.work(correlation, begin_ns, end_ns, device, stream, row, kind, moved_bytes)

    def note(self, text: str) -> None:
        """What else there is to know of the source; the first few are kept."""
        if len(self.notes) < MOST_NOTES and text not in self.notes:
            self.notes.append(cut(text))

    def production(self, size: int, events: int) -> Production:
        """What has been told, once; ``size`` in bytes and ``events`` of the source."""
        sums, by_start, queues = RowSums(), SortedRecords(WORK), sorted_changes()
        first = last = 0
        for work in self._work.joined(self._host.called()):
            sums.add(work)
            work["key"] = work["begin"]
            by_start.extend(work)
            made = changes(work)
            queues.extend(made)
            if len(made):
                first = min(first or int(made["key"].min()), int(made["key"].min()))
                last = max(last, int(made["key"].max()))
        devices, facts = self._walked(by_start)
        names = [device for device, _ in self.devices]
        facts += queue_facts(queues.batches(), first, last, self.rank, names)
        totals = summed(self._named(sums))
        for seen, what in ((self.rows, "launches"), (self.phases, "ranges"), (self.operators, "operators")):
            if seen.left_out:
                self.note(f"{seen.left_out} {what} beyond the first {seen.most} different ones are counted as {OTHER}")
        source = Source(self.name, self.form, size, events, self.launches, self.damaged, self.rank, self.notes)
        return Production([source], devices, kept(totals), facts)

    def _named(self, sums: RowSums) -> Iterator[LaunchTotal]:
        for (row, phase, operator), total in sums.sums.items():
            name, shapes, dtypes = self.operators.values[operator]
            total.what = msgspec.structs.replace(
                self.rows.values[row], rank=self.rank, phase=self.phases.values[phase], operator=name, shapes=shapes, dtypes=dtypes
            )  # fmt: skip
            yield total

    def _walked(self, by_start: SortedRecords) -> tuple[list[DeviceTime], list[Fact]]:
        seen: dict[int, tuple[DeviceSpans, IdleTime, Delays]] = {}
        for batch in by_start.batches():
            for device in np.unique(batch["device"]).tolist():
                work = batch[batch["device"] == device]
                spans, idle, delays = seen.setdefault(device, (DeviceSpans(), IdleTime(), Delays()))
                delays.add(work)
                idle.add(*spans.add(work))
                if self.collectives is not None:
                    self.collectives.add(self.rank, work, self.rows.values)
        times, facts = [], []
        names = [launch.kernel for launch in self.rows.values]
        for number, (spans, idle, delays) in sorted(seen.items()):
            device, gpu = self.devices[number]
            time = DeviceTime(
                self.rank, device, gpu, spans.busy.first_ns or 0, max(spans.busy.last_ns, spans.busy.first_ns or 0), spans.busy.ns,
                spans.communication.ns, spans.computation.ns, spans.overlapped_ns, spans.busy.count,
            )  # fmt: skip
            times.append(time)
            found = (
                idle.fact(time.span_ns, self.rank, device, names), overlap_fact(time), delays.fact(self.rank, device, names)
            )  # fmt: skip
            facts += [fact for fact in found if fact is not None]
        return times, facts


def overlap_fact(time: DeviceTime) -> Fact | None:
    """How much of communication lies beside computation; None where there is none."""
    if not time.communication_ns:
        return None
    share = time.overlapped_ns / time.communication_ns
    numbers = {
        "communication_ns": time.communication_ns, "computation_ns": time.computation_ns, "overlapped_ns": time.overlapped_ns,
        "exposed_ns": time.communication_ns - time.overlapped_ns, "overlapped_share": share,
    }  # fmt: skip
    exposed = (time.communication_ns - time.overlapped_ns) / 1e6
    summary = f"{100 * share:.1f} % of {time.communication_ns / 1e6:.3f} ms of communication lies beside computation, {exposed:.3f} ms do not"
    return Fact("overlap", summary, time.rank, time.device, "", {k: float(v) for k, v in numbers.items()})


def is_communication(kernel: str) -> bool:
    """Whether a kernel's name is one of NCCL's (or RCCL's, which has the same names)."""
    return kernel.startswith(("ncclKernel", "ncclDevKernel", "nccl_", "void ncclKernel"))
