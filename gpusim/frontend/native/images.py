"""Which images of a file suit a GPU, and which kernels are in them.

Mental model: as the driver does when it loads a module: machine code of the GPU's architecture, or of the latest
earlier minor version of the same generation, else PTX. Source: CUDA C++ Programming Guide, "Binary Compatibility", "PTX
Compatibility" and, for targets with a suffix, "Architecture-Specific Features" and "Family-Specific Features".
"""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.errors import CompileError, UsageError
from gpusim.frontend.native.ptx_text import entries
from gpusim.isa.architectures import nearest
from gpusim.isa.binary.cubin import kernels_of
from gpusim.isa.binary.device_code import device_code
from gpusim.isa.binary.elf import parse_elf
from gpusim.isa.binary.fatbin import Image, Module


def suitable(code: bytes, file: str, capability: tuple[int, int]) -> list[tuple[bool, Image]]:
    """Of each module of a file the image for a GPU of ``capability``, and before it whether it is linked; at least one.
    Raises UsageError where there is none."""
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


def kernels_in(
    chosen: Sequence[tuple[bool, Image]], file: str, entry: str | None = None
) -> dict[str, tuple[bool, Image]]:
    """Symbol of each kernel in the images that :func:`suitable` gives -> its image, linked ones first; those behind
    ``entry`` are not looked for. Raises CompileError for a damaged image."""
    known: dict[str, tuple[bool, Image]] = {}
    for linked, image in sorted(chosen, key=lambda each: not each[0]):
        try:
            names = (
                list(entries(text_of(image, file))) if image.is_ptx else kernels_of(parse_elf(content_of(image, file)))
            )
        except CompileError as error:
            raise CompileError(_naming(file, error)) from None
        for name in names:
            known.setdefault(name, (linked, image))
        if entry in known:
            break
    return known


def content_of(image: Image, file: str) -> bytes:
    """What an image of ``file`` holds; raises CompileError, naming the file, for a damaged one."""
    try:
        return image.content()
    except CompileError as error:
        raise CompileError(_naming(file, error)) from None


def text_of(image: Image, file: str) -> str:
    """The text of one that is PTX."""
    return content_of(image, file).decode("utf-8", "replace")


def _fits(image: Image, capability: tuple[int, int]) -> bool:
    if image.suffix == "a":
        return image.capability == capability
    if image.is_ptx and not image.suffix:
        return image.capability <= capability
    return image.capability[0] == capability[0] and image.capability[1] <= capability[1]


def _naming(file: str, error: CompileError) -> str:
    return str(error) if str(error).startswith(f"{file}: ") else f"{file}: {error}"
