"""Slow, obvious memory-side models to check the fast ones against; imports nothing from gpusim.

Mental model: a cache is a list of lines with the most recently used last; a DRAM channel is a clock
that ticks by one and looks at everything that has arrived. No cleverness, no shared code.
"""

from __future__ import annotations


class LruSet:
    """One set of a sectored cache: ``lines`` maps line to its valid sectors, oldest first."""

    def __init__(self, ways: int) -> None:
        self.ways = ways
        self.lines: dict[int, set[int]] = {}

    def access(self, line: int, sectors: set[int]) -> tuple[set[int], int | None]:
        """(sectors that missed, line that was evicted); the sectors are valid afterwards."""
        evicted = None
        held = self.lines.pop(line, None)
        if held is None:
            held = set()
            if len(self.lines) == self.ways:
                evicted = next(iter(self.lines))
                del self.lines[evicted]
        missed = sectors - held
        self.lines[line] = held | sectors
        return missed, evicted


def channel_schedule(
    requests: list[tuple[int, bool, int, int, int]],
    *,
    burst: int,
    row_change: int,
    row_cycle: int,
    turnaround: int,
    write_high: int,
    write_low: int,
    write_hold: int,
    turn: int,
    window: int,
    patience: int,
) -> list[tuple[int, int]]:
    """(index, first tick on the bus) in the order of service, found by walking tick by tick.

    ``requests`` are (arrival, is_write, bank, row, sectors) in order of arrival.
    """
    waiting = list(range(len(requests)))
    banks: dict[int, tuple[int, int, int, int]] = {}  # row, open since, activated, last use
    bus_free, writing, in_turn, passed_over, now = 0, False, 0, 0, 0
    served: list[tuple[int, int]] = []

    def ready(index: int) -> tuple[int, bool]:
        arrival, _, bank, row, _ = requests[index]
        open_row, since, activated, last_use = banks.get(bank, (-1, 0, -(10**9), 0))
        if open_row == row:
            return max(arrival, since), True
        return max(arrival, last_use, activated + row_cycle) + row_change, False

    while waiting:
        reads = [i for i in waiting if not requests[i][1] and requests[i][0] <= now]
        writes = [i for i in waiting if requests[i][1] and requests[i][0] <= now]
        if now < bus_free or not (reads or writes):
            now += 1
            continue
        if turn and reads and (in_turn >= turn if writing else in_turn < turn):
            write_turn = False
        elif writing and len(writes) > write_low:
            write_turn = True
        elif len(writes) >= write_high:
            write_turn = True
        elif reads:
            write_turn = False
        elif now - requests[writes[0]][0] >= write_hold:
            write_turn = True
        else:
            now += 1
            continue
        queue = writes if write_turn else reads
        if write_turn != writing and now < bus_free + turnaround:
            now += 1
            continue
        candidates = queue[: 1 if passed_over >= patience else window]
        able = [i for i in candidates if ready(i)[0] <= now]
        if not able:
            now += 1
            continue
        chosen = able[0]
        start, hit = ready(chosen)
        _, _, bank, row, sectors = requests[chosen]
        end = now + sectors * burst
        since, activated = (start, start - row_change) if not hit else banks[bank][1:3]
        banks[bank] = (row, since, activated, end)
        passed_over = 0 if chosen == queue[0] else passed_over + 1
        in_turn = in_turn + 1 if write_turn == writing else 1
        writing, bus_free = write_turn, end
        waiting.remove(chosen)
        served.append((chosen, now))
        now = end
    return served
