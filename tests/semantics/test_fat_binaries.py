"""Fat binaries, as NVIDIA's own writer makes them, and the files that carry them, are read whole; damaged ones are
refused in one line."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from fat_binaries import archive, container, cubin_of, fat_binary, host_elf

import gpusim
from gpusim.errors import CompileError, GpusimError, UsageError
from gpusim.frontend.native.images import best_image
from gpusim.frontend.registry import compile_kernel
from gpusim.io.cpp_names import demangled, spellings
from gpusim.isa.binary.cubin import kernels_of
from gpusim.isa.binary.device_code import device_code
from gpusim.isa.binary.elf import parse_elf

SCALE = "_Z5scaleIdEvPT_S0_"


def images(data: bytes) -> list[list[str]]:
    return [[image.target for image in module.images] for module in device_code(data)]


@pytest.mark.parametrize(("mode", "packings"), [("none", {""}), ("size", {"Zstandard"}), ("speed", {"LZ4"})])
def test_every_compression_unpacks_to_what_was_put_in(mode: str, packings: set[str]) -> None:
    (module,) = device_code(fat_binary(mode=mode))
    assert [image.target for image in module.images] == ["sm_80", "sm_90a", "compute_90"]
    assert {image.packing for image in module.images} == packings
    for image, target in zip(module.images, ("sm_80", "sm_90a"), strict=False):
        assert kernels_of(parse_elf(image.content())) == kernels_of(parse_elf(cubin_of(target)))
    assert b".entry saxpy" in module.images[-1].content()


def test_code_is_found_in_programs_archives_and_cubins_and_nowhere_else() -> None:
    fat = fat_binary()
    inside = [["sm_80", "sm_90a", "compute_90"]]
    assert images(fat) == images(host_elf({".nv_fatbin": fat})) == inside
    assert images(host_elf({".text": b"x" * 40, ".nv_fatbin": fat + fat})) == 2 * inside
    assert (
        images(archive({"odd": b"abc", "a.o": host_elf({".nv_fatbin": fat}), "b.o": host_elf({".text": b"abc"})}))
        == inside
    )
    assert images(b"MZ" + bytes(77) + fat) == inside  # no ELF: by the magic number
    assert images(host_elf({".text": fat, ".nv_fatbin": b""})) == []
    (part,) = device_code(host_elf({"__nv_relfatbin": fat}))
    assert not part.linked
    assert images(cubin_of("sm_80")) == [["sm_80"]]
    assert images(b"") == images(b"no code here") == []


@pytest.mark.parametrize(
    ("capability", "taken"), [((8, 0), (8, 0)), ((8, 6), (8, 0)), ((9, 0), (9, 0)), ((12, 0), (12, 0))]
)
def test_the_image_that_a_gpu_would_load_is_taken(
    capability: tuple[int, int], taken: tuple[int, int], tmp_path: Path
) -> None:
    path = tmp_path / "program"
    path.write_bytes(host_elf({".nv_fatbin": fat_binary()}))
    binary = compile_kernel(gpusim.cubin(path, "saxpy"), (), capability)
    assert binary.capability == taken and binary.name == "saxpy"
    assert bool(binary.toolchain) == (taken == (12, 0))  # there the PTX was assembled


@pytest.mark.parametrize(
    ("images", "capability", "target"),
    [
        ([(2, 100, 0), (1, 90, 0)], (10, 3), "sm_100"),
        ([(2, 100, 0x100000), (1, 90, 0)], (10, 3), "compute_90"),
        ([(2, 100, 0x200000), (1, 90, 0)], (10, 3), "sm_100f"),
        ([(2, 103, 0), (2, 100, 0)], (10, 0), "sm_100"),
        ([(2, 100, 0), (2, 100, 0x100000)], (10, 0), "sm_100a"),
        ([(1, 90, 0x100000), (1, 80, 0)], (12, 0), "compute_80"),
        ([(2, 80, 0), (1, 100, 0)], (9, 0), None),
    ],
)
def test_targets_with_a_suffix_run_where_nvidia_says(
    images: list[tuple[int, int, int]], capability: tuple[int, int], target: str | None
) -> None:
    (module,) = device_code(container(*((*image, b"code") for image in images)))
    taken = best_image(module, capability)
    assert (taken and taken.target) == target


def test_parts_that_no_linker_has_seen_are_linked() -> None:
    part = host_elf({"__nv_relfatbin": fat_binary(relocatable=True)})
    binary = compile_kernel(gpusim.cubin(archive({"a.o": part}), "saxpy"), (), (8, 0))
    assert binary.name == "saxpy" and "nvJitLink" in binary.toolchain


@pytest.mark.parametrize(
    "entry", [SCALE, "scale<double>", "scale< double >", "scale", "void scale<double>(double*, double)"]
)
def test_a_kernel_goes_by_its_name_in_cpp(entry: str) -> None:
    assert compile_kernel(gpusim.cubin(fat_binary(), entry), (), (8, 0)).name == SCALE


def test_declarations_are_taken_apart_as_cpp_has_them() -> None:
    text = "void (anonymous namespace)::k<float, ns::op<(int)3> >(float*, void (*)(int))"
    assert {"(anonymousnamespace)::k<float,ns::op<(int)3>>", "k<float,ns::op<(int)3>>", "k"} <= set(spellings(text))
    assert demangled(("saxpy", SCALE, "_Znonsense")) == {SCALE: "void scale<double>(double*, double)"}


def test_what_the_file_does_not_have_is_told_with_what_it_has(tmp_path: Path) -> None:
    fat = fat_binary()
    for entry, capability, said in (
        ("nope", (8, 0), r"has no kernel nope; it has .*scale<double>\(double\*, double\)"),
        (None, (8, 0), "holds 2 kernels"),
        ("saxpy", (7, 5), "machine code for sm_80, sm_90a and PTX for compute_90, which does not run on sm_75"),
    ):
        with pytest.raises(GpusimError, match=said):
            compile_kernel(gpusim.cubin(fat, entry), (), capability)
    (tmp_path / "plain").write_bytes(b"text")
    with pytest.raises(UsageError, match="plain: no device code"):
        compile_kernel(gpusim.cubin(tmp_path / "plain"), (), (8, 0))


@pytest.mark.parametrize(
    ("offset", "form", "value", "said"),
    [
        (8, "<Q", 1 << 62, "claims 4611686018427387904 bytes of images"),
        (16 + 4, "<I", 8, "claims 8 \\+"),
        (16 + 8, "<Q", 1 << 40, "claims 64 \\+ 1099511627776 bytes"),
        (16 + 16, "<I", 1 << 31, "the image at 0x10"),
        (16 + 56, "<Q", 1 << 60, "claims 1152921504606846976 bytes when unpacked"),
        (16 + 56, "<Q", 17, "is 18 bytes unpacked, not 17"),
        (16 + 64, "<I", 0, "Zstandard data cannot be unpacked"),
    ],
)
def test_a_damaged_container_is_refused(offset: int, form: str, value: int, said: str) -> None:
    damaged = bytearray(fat_binary(mode="size"))
    struct.pack_into(form, damaged, offset, value)
    with pytest.raises(CompileError, match=said) as refused:
        [image.content() for module in device_code(bytes(damaged)) for image in module.images]
    assert "\n" not in str(refused.value)


def test_damaged_files_around_it_are_refused() -> None:
    fat = fat_binary()
    elf = bytearray(host_elf({".nv_fatbin": fat}))
    with pytest.raises(CompileError, match="a section of fat binaries ends at"):
        device_code(_with_longer_section(elf))
    with pytest.raises(CompileError, match="damaged archive"):
        device_code(archive({"a.o": b"x" * 40})[:-10])
    with pytest.raises(CompileError, match="thin archive"):
        device_code(b"!<thin>\n")


def _with_longer_section(elf: bytearray) -> bytes:
    table = struct.unpack_from("<Q", elf, 40)[0]
    struct.pack_into("<Q", elf, table + 64 + 32, 1 << 40)  # the first section after the empty one
    return bytes(elf)


def test_machine_code_older_than_the_toolchain_reads_is_left_out_and_said(capsys):
    file_images = pytest.importorskip("gpusim.frontend.native.file_images", reason="needs the CUDA wheels")
    assert file_images._readable({(6, 1), (7, 0), (9, 0)}, "libfoo.so") == {(7, 0), (9, 0)}
    assert "libfoo.so has machine code for sm_61, older than sm_70" in capsys.readouterr().err
    with pytest.raises(UsageError, match="sm_60, sm_61.*and none else"):
        file_images._readable({(6, 1), (6, 0)}, "libfoo.so")
