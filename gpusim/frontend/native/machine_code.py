"""A kernel in a file of device code, as the driver would load it on a GPU.

Mental model: each module of the file gives the one image that suits the GPU (:mod:`gpusim.frontend.native.images`). The
kernel is looked for in those; PTX is assembled, and parts that a device linker has not seen are linked first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.frontend.native import link
from gpusim.frontend.native.entry_names import one_of
from gpusim.frontend.native.images import content_of, kernels_in, suitable, text_of
from gpusim.frontend.native.ptx_text import entries, raised
from gpusim.isa.architectures import nearest
from gpusim.isa.binary.fatbin import Image


@dataclass(frozen=True)
class FoundKernel:
    """``cubin`` for ``capability`` with kernel ``entry``; what is known beside: PTX types of its parameters, who
    assembled or linked it."""

    cubin: bytes
    entry: str
    capability: tuple[int, int]
    parameter_types: tuple[str, ...] = ()
    toolchain: str = ""


def find_kernel(code: bytes, file: str, entry: str | None, capability: tuple[int, int]) -> FoundKernel:
    """Kernel ``entry`` (None: the only one) of the file's bytes ``code`` for a GPU of ``capability``. Raises UsageError
    for a file without code for it, CompileError for a damaged one or a kernel that it does not have."""
    chosen = suitable(code, file, capability)
    known = kernels_in(chosen, file, entry)
    name = one_of(entry, list(known), file)
    linked, image = known[name]
    if image.is_ptx or not linked:
        parts = [image] if linked else [each for is_linked, each in chosen if not is_linked]
        cubin = linked_images(parts, image, f"{file}: {name}", file, capability)
        types = entries(text_of(image, file)).get(name, ()) if image.is_ptx else ()
        return FoundKernel(cubin, name, capability if image.is_ptx else image.capability, types, link.version())
    return FoundKernel(content_of(image, file), name, image.capability)


def linked_images(parts: Sequence[Image], first: Image, name: str, file: str, capability: tuple[int, int]) -> bytes:
    """``parts`` of ``file`` as one cubin: for the target of ``first`` where that is machine code, else for
    ``capability``. ``name`` says in messages what does not link."""
    target = nearest(capability).target if first.is_ptx else first.target
    given = [
        (".ptx", f"{file} ({i})", raised(text_of(part, file)).encode())
        if part.is_ptx
        else (".cubin", f"{file} ({i})", content_of(part, file))
        for i, part in enumerate(parts)
    ]
    return link.link(name, target, given)
