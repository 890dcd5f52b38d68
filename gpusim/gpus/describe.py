"""A GPU's values with their evidence, and what sets two GPUs apart.

Mental model: :func:`describe_gpu` reads a GPU file aloud, inherited claims included, each with the file that
states it: a latency "measured" on the parent is not a measurement of the heir. :func:`diff_gpus` lays two
such readings side by side and keeps the lines that differ.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import MISSING
from pathlib import Path
from typing import NamedTuple

from gpusim.gpus.consistency import check_consistency
from gpusim.gpus.load import PIPE_SECTION, build, claims_of, known_keys, locate


class GpuValue(NamedTuple):
    """One value: dotted key, value, kind of evidence, source in words, name of the file that states it."""

    key: str
    value: object
    kind: str
    source: str
    stated_by: str


def describe_gpu(name_or_path: str | Path) -> list[GpuValue]:
    """Every value of a GPU, in the order of the spec.

    A value that the file leaves to the model's default is listed with kind ``guess``, stated by ``model``.
    Raises as :func:`gpusim.gpus.load.load_gpu` does.
    """
    path = locate(name_or_path)
    claims = claims_of(path)
    check_consistency(build(path, claims), str(path))
    rows = []
    for key, default in known_keys().items():
        if key in claims:
            rows.append(GpuValue(key, *claims[key]))
        elif default is not MISSING:
            owner = "every pipe" if key.startswith(PIPE_SECTION + ".") else "the model"
            rows.append(GpuValue(key, default, "guess", f"default of {owner}", "model"))
    return rows


def evidence_of_gpu(name_or_path: str | Path) -> Counter[str]:
    """Kind of evidence -> how many of a GPU's values are of that kind, as :func:`describe_gpu` lists them."""
    return Counter(value.kind for value in describe_gpu(name_or_path))


def diff_gpus(a: str | Path, b: str | Path) -> list[tuple[GpuValue, GpuValue]]:
    """The values in which GPUs ``a`` and ``b`` (names or TOML paths) differ, as (of a, of b), in the order of
    the spec. Sources are not compared. Raises as :func:`gpusim.gpus.load.load_gpu` does."""
    return [
        (ours, theirs)
        for ours, theirs in zip(describe_gpu(a), describe_gpu(b), strict=True)
        if ours.value != theirs.value
    ]
