"""The SM's output port to the crossbar: one request after another.

Mental model: a request takes the port for its header and its payload; it arrives at its L2 slice a fixed time later.
What it was is kept under its tag until the answer comes (:mod:`gpusim.model.mshr`).
"""

from __future__ import annotations

from gpusim.model import mshr as table
from gpusim.model.compiled import inner
from gpusim.model.sm_tables import FREE_REQUEST, PORT_FREE_TICK, R_REQUESTS, SEQUENCE, USED_REQUEST
from gpusim.model.timing import FIRST_SM, REQUEST_LATENCY_TICKS, STORE_TICKS_PER_SECTOR

#: A read request's share of the output port, in quarters of a sector's payload (an 8-byte header).
HEADER_SHARE = 4


@inner
def send(out, report, requests, sms, timing, sm, fields, content, sender, signal, leave_tick):
    """Put one request on the output port and remember it under its tag.

    ``out`` is the group's REQUEST array, ``fields`` (kind, line, sectors, sectors that the port takes for the payload,
    bytes, operations); ``content`` and ``sender`` are what :mod:`gpusim.model.mshr` keeps of it; ``signal`` as
    LSU_SIGNAL.
    """
    kind, line, sectors, payload_sectors, bytes_moved, operations = fields
    tag = table.take(requests, sm, sms, FREE_REQUEST, USED_REQUEST)
    requests[sm, tag, table.CONTENT] = content
    requests[sm, tag, table.SENDER] = sender
    per_sector = timing[STORE_TICKS_PER_SECTOR]
    start = max(leave_tick, sms[sm, PORT_FREE_TICK])
    sms[sm, PORT_FREE_TICK] = start + max(1, per_sector // HEADER_SHARE) + payload_sectors * per_sector
    i = report[R_REQUESTS]
    report[R_REQUESTS] = i + 1
    record = out[i]
    record["time"] = start + timing[REQUEST_LATENCY_TICKS]
    record["line"] = line
    record["tag"] = tag
    record["sequence"] = sms[sm, SEQUENCE]
    record["sm"] = sm + timing[FIRST_SM]
    record["kind"] = kind
    record["sectors"] = sectors
    record["bytes"] = bytes_moved
    record["operations"] = operations
    record["signal"] = signal
    sms[sm, SEQUENCE] += 1
