"""Names of kernels, out of their symbols."""

from __future__ import annotations


def readable_name(symbol: str) -> str:
    """The last part of a mangled name: ``saxpy`` of ``_ZN6cudapy8__main__5saxpyB2v1B...``; what follows one that is in
    no namespace are its parameters."""
    rest, nested = symbol.removeprefix("_Z").removeprefix("N"), symbol.startswith("_ZN")
    name = ""
    while symbol.startswith("_Z") and rest[:1].isdigit() and (nested or not name):
        digits = len(rest) - len(rest.lstrip("0123456789"))
        size = int(rest[:digits])
        name, rest = rest[digits : digits + size], rest[digits + size :]
    return name or symbol
