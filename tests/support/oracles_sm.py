"""Brute-force answers for the SM's components, in plain Python, sharing nothing with gpusim."""

from __future__ import annotations

from collections import defaultdict


def lines_and_sectors(addresses: list[int], width: int) -> dict[int, int]:
    """128-byte line -> mask of 32-byte sectors, for lanes of ``width`` bytes."""
    touched: dict[int, int] = {}
    for address in addresses:
        for byte in range(address, address + width):
            line = byte // 128 * 128
            touched[line] = touched.get(line, 0) | 1 << (byte - line) // 32
    return touched


def bank_passes(addresses: list[int | None], width: int, merges: bool = False, banks: int = 32) -> int:
    """Passes over the banks: per group of lanes that moves 128 bytes, the most distinct words of a bank; where
    ``merges``, a group is twice as large if all lanes have their neighbour's address, or all that of the neighbour but
    one."""
    lanes_per_pass = 32 if width <= 4 else 128 // width
    pairs = [[(addresses[i], addresses[i ^ distance]) for i in range(32)] for distance in (1, 2)]
    if merges and width > 4 and any(all(None in pair or len(set(pair)) == 1 for pair in each) for each in pairs):
        lanes_per_pass *= 2
    total = 0
    for start in range(0, 32, lanes_per_pass):
        words = defaultdict(set)
        for address in addresses[start : start + lanes_per_pass]:
            if address is None:
                continue
            for byte in range(address, address + width):
                words[byte // 4 % banks].add(byte // 4)
        if words:
            total += max(len(distinct) for distinct in words.values())
    return total


def atomic_passes(addresses: list[int]) -> int:
    """Passes of an atomic of 4-byte words on one line: of each sector, the lanes on its most contended word."""
    return sum(max(addresses.count(a) for a in addresses if a >> 5 == sector) for sector in {a >> 5 for a in addresses})


class LruSets:
    """A set-associative cache of line numbers, least recently used, as a list of ordered lists."""

    def __init__(self, sets: int, ways: int) -> None:
        self.sets = [[] for _ in range(sets)]
        self.ways = ways

    def touch(self, index: int, line: int) -> bool:
        """Use a line; True if it was there."""
        entries = self.sets[index]
        hit = line in entries
        if hit:
            entries.remove(line)
        elif len(entries) == self.ways:
            entries.pop(0)
        entries.append(line)
        return hit


class OperandReads:
    """The two stages before operand read of one sub-core, cycle by cycle: who reads which register in which cycle."""

    WINDOW = 3

    def __init__(self) -> None:
        self.taken: set[tuple[int, int]] = set()  # (bank, cycle) in which the bank's port reads
        self.kept: dict[tuple[int, int], tuple[int, int]] = {}  # (slot, bank) -> (warp, register)
        self.left = 0  # cycle from which the stage that reserves ports is empty

    def issue(self, now: int, warp: int, sources: list[int], words: tuple[int, ...], reuse: int) -> int:
        """Issue in cycle ``now``; the first cycle in which the next instruction may."""
        wanted: dict[int, int] = {0: 0, 1: 0}
        for slot, (first, count) in enumerate(zip(sources, words, strict=True)):
            for register in range(first, first + count) if first >= 0 else ():
                place = slot, register % 2
                if self.kept.pop(place, None) != (warp, register):
                    wanted[register % 2] += 1
                if reuse >> slot & 1:
                    self.kept[place] = warp, register
        arrives = max(now, self.left)
        start = arrives
        while not all(self._fits(bank, start, count) for bank, count in wanted.items()):
            start += 1
        for bank, count in wanted.items():
            self._reserve(bank, arrives, count)
        self.left = start + 1
        return arrives + 1

    def _free(self, bank: int, start: int, end: int) -> list[int]:
        return [cycle for cycle in range(start, end) if (bank, cycle) not in self.taken]

    def _fits(self, bank: int, start: int, count: int) -> bool:
        return len(self._free(bank, start, start + self.WINDOW)) >= count

    def _reserve(self, bank: int, start: int, count: int) -> None:
        self.taken |= {(bank, cycle) for cycle in self._free(bank, start, start + 1000)[:count]}
