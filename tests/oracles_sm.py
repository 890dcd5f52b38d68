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


def bank_passes(addresses: list[int | None], width: int, banks: int = 32) -> int:
    """Passes over the banks: per group of lanes that moves 128 bytes, the most distinct words of a bank."""
    lanes_per_pass = 32 if width <= 4 else 128 // width
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


def most_lanes_on_a_word(addresses: list[int]) -> int:
    """How many lanes an atomic serialises on the most contended word."""
    return max(addresses.count(address) for address in set(addresses))


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
