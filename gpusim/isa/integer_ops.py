"""Codes of the integer bodies' flags: comparisons, how they join predicates, byte permutations."""

from __future__ import annotations

#: Comparison codes: bit 0 less, bit 1 equal, bit 2 greater, bit 3 unordered.
COMPARISONS = {
    "F": 0,
    "LT": 1,
    "EQ": 2,
    "LE": 3,
    "GT": 4,
    "NE": 5,
    "GE": 6,
    "NUM": 7,
    "NAN": 8,
    "LTU": 9,
    "EQU": 10,
    "LEU": 11,
    "GTU": 12,
    "NEU": 13,
    "GEU": 14,
    "T": 15,
}
#: How a comparison joins its predicate input.
JOIN_AND, JOIN_OR, JOIN_XOR = 0, 1, 2
JOINS = {"AND": JOIN_AND, "OR": JOIN_OR, "XOR": JOIN_XOR}
#: Byte-permute modes.
PERMUTE_MODES = {"": 0, "F4E": 1, "B4E": 2, "RC8": 3, "ECL": 4, "ECR": 5, "RC16": 6}
