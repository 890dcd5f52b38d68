"""Record the traces that ship with gpusim: small launches, so that the engine has input without the CUDA packages.

Mental model: one file a kernel and GPU under ``traces/recorded``, and a manifest that says what each is.
Source paths are kept relative to the repository, so that a recording says the same wherever it was made.
Running it again replaces them all; the golden test then shows which pinned cycles the new machine code moved.

    python tools/record_traces.py
"""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import click

from gpusim.cases.suite import capture_case, make_case
from gpusim.gpus.load import load_gpu
from gpusim.trace.record import Trace

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "traces" / "recorded"
KERNELS = ("saxpy", "softmax", "histogram", "matmul_tiled")
GPUS = ("a100_80gb", "h200")


def relative_sources(trace: Trace) -> Trace:
    """The same trace with source files named from the repository's root."""
    files = tuple(
        str(Path(name).relative_to(ROOT)) if Path(name).is_relative_to(ROOT) else Path(name).name
        for name in trace.program.files
    )
    return replace(trace, program=replace(trace.program, files=files))


@click.command()
def main() -> None:
    """Capture KERNELS at their small shape for GPUS and write them with their manifest."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    entries = []
    for gpu_name in GPUS:
        gpu = load_gpu(gpu_name)
        for kernel in KERNELS:
            (launch,) = capture_case(make_case(kernel, {}, gpu, small=True), gpu)
            trace = relative_sources(launch.trace)
            path = FOLDER / f"{kernel}-{gpu_name}.trace"
            trace.save(path)
            entries.append(
                {
                    "file": path.name,
                    "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                    "kernel": kernel,
                    "shape": "small",
                    "gpu": gpu_name,
                    "grid": trace.launch.grid,
                    "block": trace.launch.block,
                    "warp_instructions": trace.warp_instructions,
                    "cubin_sha256": trace.launch.cubin_sha256,
                    "toolchain": trace.launch.toolchain,
                }
            )
            click.echo(f"{path.relative_to(ROOT)}  {path.stat().st_size} bytes")
    manifest = {
        "about": "Launches of the kernel suite recorded by tools/record_traces.py; emulated, not measured.",
        "date": datetime.date.today().isoformat(),
        "traces": entries,
    }
    (FOLDER / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
