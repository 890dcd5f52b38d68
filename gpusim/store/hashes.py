"""What two results have in common, as hashes: the GPU's figures, the trace, this gpusim's own code.

Mental model: a hash is over content that decides cycles, and over nothing else: renaming a GPU file, capturing in
another folder or installing elsewhere changes none of them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

import gpusim.engine
import gpusim.model
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.coding import encode_chunk
from gpusim.trace.record import Trace

#: Where a launch happened and by whom it was built: told apart by the cubin's hash where it matters.
_PROVENANCE = ("gpu", "toolchain")
_NAMES = ("name", "title")


def gpu_values(spec: GpuSpec) -> dict[str, object]:
    """Every value of ``spec`` by its dotted key (``l2.hit_latency_ns``), but for its names."""
    values: dict[str, object] = {}

    def flatten(prefix: str, value: object) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                flatten(f"{prefix}.{key}" if prefix else key, part)
        else:
            values[prefix] = list(value) if isinstance(value, tuple) else value

    flatten("", {key: value for key, value in asdict(spec).items() if key not in _NAMES})
    return values


def gpu_hash(spec: GpuSpec) -> str:
    """sha256 of the figures of ``spec``: equal for equal machines, whatever they are called."""
    return hashlib.sha256(json.dumps(gpu_values(spec), sort_keys=True).encode()).hexdigest()


def trace_hash(trace: Trace) -> str:
    """sha256 of what ``trace`` makes a machine do: code, launch, paths and addresses. Costs one pass over it."""
    program = trace.program
    code = program.instructions.copy()
    code["file"] = code["line"] = 0  # where the source lies does not change what the machine does
    facts = {key: value for key, value in trace.launch.facts().items() if key not in _PROVENANCE}
    digest = hashlib.sha256(json.dumps([facts, program.texts], sort_keys=True).encode())
    digest.update(code.tobytes())
    for chunk in trace.chunk_list:
        digest.update(encode_chunk(chunk, program))
    return digest.hexdigest()


@lru_cache(maxsize=1)
def model_hash() -> str:
    """sha256 of the source files of this gpusim's model and engine: equal for equal timing, whatever the version says.
    Empty where they cannot be read."""
    digest = hashlib.sha256()
    try:
        for package in (gpusim.model, gpusim.engine):
            folder = Path(str(package.__file__)).parent
            for path in sorted(folder.rglob("*.py")):
                digest.update(f"{path.relative_to(folder.parent).as_posix()}\0".encode())
                digest.update(path.read_bytes())
    except OSError:
        return ""
    return digest.hexdigest()
