"""The lines or instructions where most warp-cycles went, as rows of a page."""

from __future__ import annotations

from typing import Any


def hot_rows(shares: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """The ``most`` shares (as :func:`gpusim.report.summary.share_document` writes them) with the most warp-cycles."""
    total = sum(share["warp_cycles"] for share in shares) or 1
    ranked = sorted(shares, key=lambda share: -share["warp_cycles"])[:most]
    return [
        {
            "place": _place(share),
            "percent": 100.0 * share["warp_cycles"] / total,
            "top_stall": _top_stall(share),
            "issues": share["issues"],
            "sectors": share.get("sectors", 0),
            "l1_hits": share.get("l1_hit_sectors", 0),
            "conflicts": share.get("bank_conflicts", 0),
            "code": share["code"],
        }
        for share in ranked
        if share["warp_cycles"]
    ]


def _place(share: dict[str, Any]) -> str:
    line = f"{share['file'].rsplit('/', 1)[-1]}:{share['line']}" if share["line"] else "no line"
    return f"{share['address']:04x} ({line})" if "address" in share else line


def _top_stall(share: dict[str, Any]) -> str:
    waits = {name.removeprefix("stall."): c for name, c in share.items() if name.startswith("stall.")}
    waits.pop("selected", None)
    reason = max(waits, key=waits.__getitem__, default="")
    return reason if waits.get(reason) else "-"
