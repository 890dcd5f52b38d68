"""All machine code of a file, kernel or not asked for: what a survey reads.

Mental model: a source is compiled for each architecture asked for, a file of machine code has its images already. Where
no architecture is asked for, it is every one that the file has code for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpusim.errors import UsageError
from gpusim.frontend.native import cpp, link
from gpusim.frontend.native.images import best_image, content_of, modules_of
from gpusim.frontend.native.kernels import CubinKernel, CudaCppKernel, PtxKernel, cubin, cuda_cpp, ptx
from gpusim.frontend.native.machine_code import linked_images
from gpusim.frontend.native.ptx_text import raised
from gpusim.io.progress import task
from gpusim.isa.architectures import READ, SURVEYED, nearest
from gpusim.isa.binary.cubin import kernels_of
from gpusim.isa.binary.elf import parse_elf
from gpusim.isa.binary.fatbin import Image


def cubins_of(
    path: Path,
    capabilities: Sequence[tuple[int, int]] | None,
    source: CudaCppKernel | PtxKernel | CubinKernel | None = None,
) -> Iterator[bytes]:
    """Each cubin with kernels in the file, or in ``source``, the file with compiler options, for ``capabilities``
    (None: all that it has code for; a source: those of ``--arch all``). Of CUDA C++ these are the kernels that the file
    itself instantiates.

    Raises UsageError for a file that cannot be read or has no kernel, CompileError for one that is damaged or does not
    compile.
    """
    found = 0
    for code in _all(path, capabilities, source):
        if kernels_of(parse_elf(code)):
            found += 1
            yield code
    if not found:
        raise UsageError(f"{path} has no kernel; one that is a template is named with its arguments, FILE.cu:NAME<...>")


def _all(
    path: Path, capabilities: Sequence[tuple[int, int]] | None, source: CudaCppKernel | PtxKernel | CubinKernel | None
) -> Iterator[bytes]:
    wanted = [row.capability for row in SURVEYED] if capabilities is None else capabilities
    if path.suffix in (".cu", ".cuh", ".cpp"):
        source = source if isinstance(source, CudaCppKernel) else cuda_cpp(path, "all kernels")
        for capability in wanted:
            target = nearest(capability).name
            yield cpp.compile_all(source.unit, target).cubin
    elif path.suffix == ".ptx":
        text = ptx(path).text
        for capability in wanted:
            yield _assembled(text, path.name, capability)
    else:
        yield from _of_machine_code(cubin(path).code, str(path), capabilities)


def _of_machine_code(code: bytes, file: str, capabilities: Sequence[tuple[int, int]] | None) -> Iterator[bytes]:
    modules = modules_of(code, file)
    if capabilities is None:
        own = {image.capability for module in modules for image in module.images if not image.is_ptx}
        capabilities = sorted(_readable(own, file)) or [row.capability for row in SURVEYED]
    jobs: list[tuple[list[Image], tuple[int, int], bool]] = []
    seen: set[int] = set()  # machine code that serves several architectures is there once
    for capability in capabilities:
        chosen = [(module.linked, image) for module in modules if (image := best_image(module, capability)) is not None]
        parts = [image for linked, image in chosen if not linked]
        for images, linked in (*(([image], True) for linked, image in chosen if linked), (parts, False)):
            if any(image.is_ptx or id(image) not in seen for image in images):
                seen.update(map(id, images))
                jobs.append((images, capability, linked))
    if not jobs:
        raise UsageError(f"{file} has no code that runs on {', '.join(nearest(each).name for each in capabilities)}")
    with task("reading", len(jobs), "cubins") as shown:
        for number, (images, capability, linked) in enumerate(jobs):
            shown.to(number, file)
            ready = linked and not images[0].is_ptx
            yield content_of(images[0], file) if ready else linked_images(images, images[0], file, file, capability)
        shown.to(len(jobs))


def _readable(own: set[tuple[int, int]], file: str) -> set[tuple[int, int]]:
    """Those architectures whose machine code the toolchain still reads; what is left out is said on stderr."""
    oldest = min(row.capability for row in READ)
    older = sorted(each for each in own if each < oldest)
    if older:
        names = ", ".join("sm_{}{}".format(*each) for each in older)
        what = (
            f"{file} has machine code for {names}, older than {nearest(oldest).name}, which the toolchain does not read"
        )
        if len(older) == len(own):
            raise UsageError(f"{what}, and none else")
        print(f"{what}: left out", file=sys.stderr)
    return own - set(older)


def _assembled(text: str, name: str, capability: tuple[int, int]) -> bytes:
    return link.link(name, nearest(capability).target, [(".ptx", name, raised(text).encode())])
