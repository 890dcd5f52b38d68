"""The columns of the account of a run.

Mental model: a launch that ran in a chain of programmatic dependent launches has a column more than others; a table has
the same for all.
"""

from __future__ import annotations

from typing import Any


def same_columns(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of launches, all with the column that only those in chains have, if any has it."""
    if any("overlap_cycles" in record for record in records):
        return [{**record, "overlap_cycles": record.get("overlap_cycles")} for record in records]
    return records
