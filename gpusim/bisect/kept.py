"""Readings in the store, so that a bisection that was killed goes on where it stood, and the next one finds what this
one has read.

Mental model: a reading is a run of the store, called by a hash of all that decides it; its launches are the run's, so
that ``gpusim regress`` takes two of them as it takes any runs. A run that was not finished does not count: a reading is
there whole or not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from gpusim.bisect.reading import Point, Reading, reading_of
from gpusim.errors import StoreFormatError, UnknownRunError
from gpusim.io.records import as_record
from gpusim.store.store import Store

COMMAND, DOCUMENT = "bisect", "reading"


class _Kept(TypedDict):
    """A reading without its launches."""

    point: str
    values: dict[str, float]
    sass: list[str]
    refused: str
    unchecked: str
    facts: dict[str, str]
    figures: dict[str, dict[str, Any]]


def key_of(**decides: Any) -> str:
    """What a reading is called that depends on ``decides`` alone."""
    return "bisect-" + hashlib.sha256(json.dumps(decides, sort_keys=True, default=str).encode()).hexdigest()[:20]


def find_reading(store: Store, key: str) -> Reading | None:
    """The reading of that key, None where there is none. Raises StoreFormatError for one that is damaged."""
    try:
        run = store.load_run(key)
    except UnknownRunError:
        return None
    kept = as_record(_Kept, run.documents.get(DOCUMENT), f"run {key}: its reading", StoreFormatError)
    if run.launches:
        return reading_of(run.launches, kept["figures"], kept["facts"], kept["unchecked"])
    return Reading(kept["values"], (), tuple(kept["sass"]), kept["refused"], kept["unchecked"], kept["facts"])


def keep_reading(store: Store, key: str, point: Point, reading: Reading, arguments: Sequence[str] = ()) -> None:
    """Keep ``reading`` of ``point``."""
    figures: dict[str, Mapping[str, Any]] = {item.record.gpu_hash: item.figures for item in reading.launches}
    with store.new_run(key, command=COMMAND, arguments=arguments) as run:
        run.add_launches(item.record for item in reading.launches)
        document = {
            "point": point.name, "values": dict(reading.values), "sass": list(reading.sass), "refused": reading.refused,
            "unchecked": reading.unchecked, "facts": dict(reading.facts), "figures": figures,
        }  # fmt: skip
        run.add_document(DOCUMENT, document)
