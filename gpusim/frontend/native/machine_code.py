"""A kernel in a file of device code, as the driver would load it on a GPU.

Mental model: each module of the file gives the one image that suits the GPU best: machine code of its architecture, or of the latest
earlier minor version of the same generation, or PTX that is assembled for it. The kernel is looked for in those; parts that a device
linker has not seen are linked first. Source: CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.errors import CompileError, UsageError
from gpusim.frontend.native import link
from gpusim.frontend.native.entry_names import one_of
from gpusim.frontend.native.ptx_text import entries, raised
from gpusim.isa.architectures import nearest
from gpusim.isa.binary.cubin import kernels_of
from gpusim.isa.binary.device_code import device_code
from gpusim.isa.binary.elf import parse_elf
from gpusim.isa.binary.fatbin import Image, Module


@dataclass(frozen=True)
class FoundKernel:
    """``cubin`` for ``capability`` with kernel ``entry``; what is known beside: PTX types of its parameters, who assembled or linked
    it."""

    cubin: bytes
    entry: str
    capability: tuple[int, int]
    parameter_types: tuple[str, ...] = ()
    toolchain: str = ""


def find_kernel(code: bytes, file: str, entry: str | None, capability: tuple[int, int]) -> FoundKernel:
    """Kernel ``entry`` (None: the only one) of the file's bytes ``code`` for a GPU of ``capability``. Raises UsageError for a
    file without code for it, CompileError for a damaged one or a kernel that it does not have."""
    chosen = suitable(code, file, capability)
    known = kernels_in(chosen, file, entry)
    name = one_of(entry, list(known), file)
    linked, image = known[name]
    if image.is_ptx or not linked:
        parts = [image] if linked else [each for is_linked, each in chosen if not is_linked]
        cubin = linked_images(parts, image, name, file, capability)
        types = entries(_text(image, file)).get(name, ()) if image.is_ptx else ()
        return FoundKernel(cubin, name, capability if image.is_ptx else image.capability, types, link.version())
    return FoundKernel(content_of(image, file), name, image.capability)


def kernels_in(
    chosen: Sequence[tuple[bool, Image]], file: str, entry: str | None = None
) -> dict[str, tuple[bool, Image]]:
    """Symbol of each kernel in the images that :func:`suitable` gives -> its image, linked ones first; those behind ``entry``
    are not looked for. Raises CompileError for a damaged image."""
    known: dict[str, tuple[bool, Image]] = {}
    for linked, image in sorted(chosen, key=lambda each: not each[0]):
        try:
            names = (
                list(entries(_text(image, file))) if image.is_ptx else kernels_of(parse_elf(content_of(image, file)))
            )
        except CompileError as error:
            raise CompileError(_naming(file, error)) from None
        for name in names:
            known.setdefault(name, (linked, image))
        if entry in known:
            break
    return known


def suitable(code: bytes, file: str, capability: tuple[int, int]) -> list[tuple[bool, Image]]:
    """Of each module of a file the image for a GPU of ``capability``, and before it whether it is linked; at least one. Raises
    UsageError where there is none."""
    modules = modules_of(code, file)
    chosen = [(module.linked, image) for module in modules if (image := best_image(module, capability)) is not None]
    if chosen:
        return chosen
    images = [image for module in modules for image in module.images]
    code_for, ptx_for = (
        ", ".join(dict.fromkeys(each.target for each in images if each.is_ptx == is_ptx)) for is_ptx in (False, True)
    )
    held = " and ".join(
        text for text, given in ((f"machine code for {code_for}", code_for), (f"PTX for {ptx_for}", ptx_for)) if given
    )
    raise UsageError(
        f"{file} holds {held}, which does not run on {nearest(capability).name}: choose a GPU of its architecture, or compile it"
        " for this one"
    )


def modules_of(code: bytes, file: str) -> list[Module]:
    """The modules of a file, at least one. Raises UsageError for a file without any, CompileError for a damaged one."""
    try:
        modules = [module for module in device_code(code) if module.images]
    except CompileError as error:
        raise CompileError(f"{file}: {error}") from None
    if not modules:
        raise UsageError(f"{file}: no device code: neither a cubin nor a fat binary, nor a program with one")
    return modules


def best_image(module: Module, capability: tuple[int, int]) -> Image | None:
    """The image of ``module`` that the driver would load on a GPU of ``capability``, None where none runs there."""
    fits = [image for image in module.images if _fits(image, capability)]
    return max(fits, key=lambda image: (not image.is_ptx, image.capability, bool(image.suffix)), default=None)


def _fits(image: Image, capability: tuple[int, int]) -> bool:
    if image.suffix == "a":
        return image.capability == capability
    if image.is_ptx and not image.suffix:
        return image.capability <= capability
    return image.capability[0] == capability[0] and image.capability[1] <= capability[1]


def linked_images(parts: Sequence[Image], first: Image, name: str, file: str, capability: tuple[int, int]) -> bytes:
    """``parts`` of ``file`` as one cubin: for the target of ``first`` where that is machine code, else for ``capability``.
    ``name`` says in messages what does not link."""
    target = nearest(capability).target if first.is_ptx else first.target
    given = [
        (".ptx", f"{file} ({i})", raised(_text(part, file)).encode())
        if part.is_ptx
        else (".cubin", f"{file} ({i})", content_of(part, file))
        for i, part in enumerate(parts)
    ]
    return link.link(name, target, given)


def content_of(image: Image, file: str) -> bytes:
    """What an image of ``file`` holds; raises CompileError, naming the file, for a damaged one."""
    try:
        return image.content()
    except CompileError as error:
        raise CompileError(_naming(file, error)) from None


def _text(image: Image, file: str) -> str:
    return content_of(image, file).decode("utf-8", "replace")


def _naming(file: str, error: CompileError) -> str:
    return str(error) if str(error).startswith(f"{file}: ") else f"{file}: {error}"
