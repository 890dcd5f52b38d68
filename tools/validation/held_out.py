"""A GPU as its datasheet alone would have described it: nothing that its own published curves set.

Mental model: ``gpusim gpus make`` describes the GPU on top of a related one, which the first line of its datasheet
names. Where that one has values that were fitted on the held-out GPU's curves (the L40 inherits from the A40), they go
back to what the held-out GPU's own parent says; where a rule of :mod:`gpusim.gpus.make` came from the held-out GPU,
another's takes its place.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from gpusim.errors import UsageError
from gpusim.gpus import datasheet
from gpusim.gpus.load import Claim, claims_of, load_gpu, locate
from gpusim.gpus.make import make_gpu
from gpusim.gpus.make_memory import miss_latency_ns
from gpusim.gpus.memory_kinds import MEMORY_KINDS
from gpusim.gpus.spec import GpuSpec

SHEETS = Path(datasheet.__file__).parent / "datasheets"
#: The GPUs with published curves but for the A100 80 GB, from which all others inherit.
HELD_OUT = ("a100_40gb", "a40", "l40", "h100_pcie", "gh200", "h200")
_LIKE = re.compile(r"--like (\S+)")
#: The reachable share of a kind's pin rate is set from these themselves: without them it would be that of HBM2e.
_RULES_OF_THEIR_OWN = {"a100_40gb": "HBM2e", "gh200": "HBM2e", "h200": "HBM2e"}
#: What is the DRAM's own of its latency, from the other GPUs alone (make.DRAM_OWN_NS is from all): H200 and GH200 are
#: one chip.
_DRAM_OWN_NS_WITHOUT = {"a40": 68.5, "l40": 50.5, "h100_pcie": 68.8, "gh200": 72.5, "h200": 72.5}


def like_of(name: str) -> str:
    """The GPU that ``name``'s datasheet is put on top of. Raises UsageError."""
    path = SHEETS / f"{name}.toml"
    found = _LIKE.search(path.read_text().splitlines()[0]) if path.is_file() else None
    if found is None:
        raise UsageError(f"{name}: there is no {path.name} in {path.parent.name} whose first line says --like GPU")
    return found[1]


def held_out(name: str) -> GpuSpec:
    """``name`` as described from its datasheet, called ``NAME_datasheet``."""
    like = like_of(name)
    sheet = datasheet.read_datasheet(SHEETS / f"{name}.toml")
    spec = make_gpu(f"{name}_datasheet", sheet, like, _without_own_claims(name, like)).spec
    kind = _RULES_OF_THEIR_OWN.get(name)
    if kind is not None:
        spec = replace(spec, dram=replace(spec.dram, efficiency=MEMORY_KINDS[kind].efficiency))
    own_ns = _DRAM_OWN_NS_WITHOUT.get(name)
    if own_ns is not None:
        base = load_gpu(like)
        latency_ns = miss_latency_ns(base, spec.clock_hz / base.clock_hz, own_ns)
        spec = replace(spec, dram=replace(spec.dram, miss_latency_ns=latency_ns))
    # Whether the measured board had its error codes on is no figure of its curves, and not the datasheet's.
    return replace(spec, dram=replace(spec.dram, streams_with_codes=load_gpu(name).dram.streams_with_codes))


def _without_own_claims(name: str, like: str) -> dict[str, Claim]:
    """``like``'s claims, of which those from ``name``'s curves are as ``name``'s own parent has them."""
    claims = claims_of(locate(like))
    own = {key for key, claim in claims.items() if claim.stated_by == name and claim.kind == "fitted"}
    if own:
        older = claims_of(locate(_parent_of(name)))
        for key in own:
            if key in older:
                claims[key] = older[key]
            else:
                del claims[key]
    return claims


def _parent_of(name: str) -> str:
    text = locate(name).read_text()
    found = re.search(r'^inherits = "(\w+)"', text, re.M)
    if found is None:
        raise UsageError(f"{name} inherits from no GPU: it cannot be held out")
    return found[1]
