"""Where the machine code of a measured kernel comes from: compiled here, or brought along as files.

Mental model: what is measured must be what is simulated, to the byte. A machine with a GPU may have other compilers
than the one that simulates, so the cubins can be made there and carried: a *pack* is a folder with one file a cubin,
named by its SHA-256, and an index that says which launch of which case at which shape runs which. :func:`write_pack`
makes one (it needs no GPU), :class:`Pack` reads it; :class:`Compiler`, the default, compiles. Raises
MeasurementFormatError for a damaged pack, SiliconError for a case that is not in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NotRequired, Protocol, TypedDict

from gpusim.capturing import chosen
from gpusim.errors import MeasurementFormatError, SiliconError
from gpusim.frontend.registry import compile_kernel
from gpusim.gpus.spec import GpuSpec
from gpusim.io.records import parse_record
from gpusim.io.whole_file import write_whole
from gpusim.launch.binary import KernelBinary
from gpusim.measure.helpers import HELPERS

INDEX, FORMAT, VERSION = "index.json", "gpusim-cubins", 1
MAX_INDEX_BYTES = 64 << 20
MAX_CUBIN_BYTES = 256 << 20


class Builder(Protocol):
    """Gives the machine code of a kernel. ``key`` names the launch: ``saxpy:n=1000,block_threads=256#0``,
    ``helper:spin``."""

    def build(self, kernel: Any, args: tuple, capability: tuple[int, int], key: str) -> KernelBinary:
        """The built kernel for these arguments."""

    def toolchain(self) -> str:
        """Versions of what compiled it; empty if it is what is installed here."""


class Compiler:
    """Compiles with what is installed here."""

    def build(self, kernel: Any, args: tuple, capability: tuple[int, int], key: str) -> KernelBinary:
        return compile_kernel(kernel, args, capability, lines=False)

    def toolchain(self) -> str:
        return ""


class _Entry(TypedDict):
    """A kernel: the file that holds it, by hash, its symbol and the name in the source; where its language fixes them
    when it compiles, the block and the dynamic shared memory."""

    sha256: str
    entry: str
    name: str
    cooperative: bool
    block: NotRequired[tuple[int, int, int]]
    dynamic_shared_bytes: NotRequired[int]


class _Index(TypedDict):
    """The index of a pack; ``kernels`` by :func:`launch_key`."""

    format: str
    version: int
    capability: tuple[int, int]
    toolchain: str
    kernels: dict[str, _Entry]


class Pack:
    """Machine code from a folder that :func:`write_pack` made."""

    def __init__(self, folder: Path):
        self.folder = folder
        path = folder / INDEX
        try:
            if path.stat().st_size > MAX_INDEX_BYTES:
                raise MeasurementFormatError(f"{path}: more than {MAX_INDEX_BYTES} bytes are no index")
            data = path.read_bytes()
        except OSError as error:
            raise MeasurementFormatError(
                f"{path}: {error.strerror}: make a pack with tools/record_silicon.py --pack"
            ) from None
        index = parse_record(_Index, data, f"{path}: damaged index", MeasurementFormatError)
        if index["format"] != FORMAT or index["version"] != VERSION:
            raise MeasurementFormatError(f"{path}: not an index of cubins of version {VERSION}")
        self._capability, self._toolchain, self._kernels = index["capability"], index["toolchain"], index["kernels"]

    def toolchain(self) -> str:
        return self._toolchain

    def build(self, kernel: Any, args: tuple, capability: tuple[int, int], key: str) -> KernelBinary:
        if tuple(capability) != self._capability:
            have, want = (".".join(map(str, c)) for c in (self._capability, capability))
            raise SiliconError(f"{self.folder} holds machine code for compute capability {have}, this GPU is {want}")
        if key not in self._kernels:
            raise SiliconError(f"{key} is not in {self.folder}: make the pack again, or measure without it")
        entry = self._kernels[key]
        return KernelBinary(
            cubin=self._cubin(entry["sha256"]),
            entry_name=entry["entry"],
            name=entry["name"],
            capability=self._capability,
            cooperative=entry["cooperative"],
            toolchain=self._toolchain,
            block=entry.get("block"),
            dynamic_shared_bytes=entry.get("dynamic_shared_bytes", 0),
        )

    def _cubin(self, digest: str) -> bytes:
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise MeasurementFormatError(f"{self.folder / INDEX}: {digest[:80]!r} is no SHA-256")
        path = self.folder / f"{digest}.cubin"
        try:
            if path.stat().st_size > MAX_CUBIN_BYTES:
                raise MeasurementFormatError(f"{path}: more than {MAX_CUBIN_BYTES} bytes are refused")
            data = path.read_bytes()
        except OSError as error:
            raise MeasurementFormatError(f"{path}: {error.strerror}: make the pack again") from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise MeasurementFormatError(f"{path}: its content is not what its name says: make the pack again")
        return data


def launch_key(name: str, shape: str, index: int) -> str:
    """The key of launch ``index`` (among all launches of the case) of a case."""
    return f"{name}:{shape}#{index}"


def write_pack(folder: Path, cases: Iterable[tuple[str, str, Any]], gpu: GpuSpec, toolchain: str) -> int:
    """Compile the launches of ``cases`` (name, complete shape as text, case) and the helpers into ``folder`` for
    ``gpu``, on which autotuned kernels choose; how many kernels. The index is written last, so an unfinished pack is
    none."""
    capability = (int(gpu.capability[0]), int(gpu.capability[1]))
    folder.mkdir(parents=True, exist_ok=True)
    compiler, kernels = Compiler(), {}

    def add(key: str, kernel: Any, args: tuple) -> None:
        binary = compiler.build(kernel, args, capability, key)
        digest = hashlib.sha256(binary.cubin).hexdigest()
        write_whole(folder / f"{digest}.cubin", binary.cubin)
        kernels[key] = {
            "sha256": digest,
            "entry": binary.entry_name,
            "name": binary.name,
            "cooperative": binary.cooperative,
        }
        if binary.block is not None:
            kernels[key]["block"] = list(binary.block)
        if binary.dynamic_shared_bytes:
            kernels[key]["dynamic_shared_bytes"] = binary.dynamic_shared_bytes

    for name, (kernel, args) in HELPERS.items():
        add(f"helper:{name}", kernel, args)
    for name, shape, case in cases:
        for index, launch in enumerate(case.launches):
            args = tuple(launch.args)
            kernel = chosen(launch.kernel, launch.grid, launch.block, args, gpu=gpu, shared_bytes=launch.shared_bytes)
            add(launch_key(name, shape, index), kernel, args)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "capability": capability,
        "toolchain": toolchain,
        "kernels": kernels,
    }
    write_whole(folder / INDEX, json.dumps(document, indent=1).encode())
    return len(kernels)
