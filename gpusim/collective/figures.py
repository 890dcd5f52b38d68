"""What collectives take on a GPU generation: figures of ``figures.toml``, fitted to measurements, physical in form."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path

from gpusim.collective.tuning import SWITCH_EFFICIENCY

_FILE = Path(__file__).with_name("figures.toml")
#: Generations whose collectives are taken to be like another's.
LIKE = {"ada": "ampere", "turing": "ampere", "volta": "ampere", "blackwell": "hopper"}


@dataclass(frozen=True)
class Figures:
    """Microseconds, shares of the links' rate, and bytes moved within the GPU as a share of those of one GPU's part
    (``copy``)."""

    base_ll_us: float
    base_ll128_us: float
    base_simple_us: float
    step_ll_us: float
    step_ll128_us: float
    step_simple_us: float
    share_ll: float
    share_ll128: float
    share_simple: float
    copy_all_reduce: float
    copy_all_gather: float
    copy_reduce_scatter: float
    peers_base_us: float
    peers_step_us: float
    peers_late_us: float
    peers_share: float
    peers_copy: float
    switch_base_us: float
    switch_share: float
    switch_copy: float
    one_shot_us: float
    one_shot_peer_us: float
    one_shot_share: float
    two_shot_us: float
    two_shot_peer_us: float
    two_shot_share: float


@functools.cache
def figures_of(generation: str) -> Figures:
    """Of a generation, or of the one that it is taken to be like; of an unknown one Hopper's. Sums in the switch reach
    as much less than the other's as NCCL reckons."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    like = generation if generation in table else LIKE.get(generation, "hopper")
    row = table[like]
    assert set(row) == {each.name for each in fields(Figures)}
    found = Figures(**{name: float(value) for name, value in row.items()})
    if generation in SWITCH_EFFICIENCY and like in SWITCH_EFFICIENCY:
        share = found.switch_share * SWITCH_EFFICIENCY[generation] / SWITCH_EFFICIENCY[like]
        found = replace(found, switch_share=share)
    return found
