"""What NVRTC made in an earlier process is taken only for the very same compilation."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusim.errors import ToolchainError
from gpusim.frontend.native import nvrtc
from gpusim.frontend.native.cpp_unit import CppBuild, CppUnit
from gpusim.frontend.native.included import included
from gpusim.frontend.native.kept_builds import fingerprint, read_build, write_build
from gpusim.io.cache_folder import CACHE_VARIABLE

SOURCE = '#include "own.h"\n#include <toolkit.h>\nextern "C" __global__ void k(float *x) { *x = VALUE; }\n'


@pytest.fixture
def folders(tmp_path: Path, monkeypatch) -> tuple[Path, Path]:
    """A user's folder and a toolkit's, with what SOURCE includes."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    user, toolkit = tmp_path / "user", tmp_path / "toolkit"
    for folder in (user, toolkit):
        folder.mkdir()
    (user / "own.h").write_text('#include "inner.h"\n')
    (user / "inner.h").write_text("#define VALUE 1.0f\n")
    (toolkit / "toolkit.h").write_text("\n")
    return user, toolkit


def digest(
    folders: tuple[Path, Path], source: str = SOURCE, options: tuple[str, ...] = (), about=("sm_80",)
) -> str | None:
    user, toolkit = folders
    return fingerprint(source, "a.cu", about, options, [str(user)], [str(toolkit)], [("mapped.h", "int a;")])


def test_the_digest_is_that_of_the_source_and_of_all_that_it_includes(folders) -> None:
    user, toolkit = folders
    seen = [digest(folders)]
    assert seen[0] is not None and seen[0] == digest(folders)
    seen += [digest(folders, SOURCE + " "), digest(folders, options=("-DN=4",)), digest(folders, about=("sm_90",))]
    (user / "inner.h").write_text("#define VALUE 2.0f\n")
    seen.append(digest(folders))
    (toolkit / "toolkit.h").write_text("// newer\n")
    seen.append(digest(folders))
    (user / "toolkit.h").write_text("// found first\n")
    seen.append(digest(folders))
    assert None not in seen and len(set(seen)) == len(seen)


def test_headers_that_include_each_other_end(folders) -> None:
    (folders[0] / "inner.h").write_text('#include "own.h"\n')
    assert digest(folders) is not None


def test_headers_that_include_each_other_by_the_folder_above_are_each_one_file(folders) -> None:
    """As GLM's do, of which a kernel's capture was never done: each round made the paths longer, and twice as many."""
    for folder, other in ("one", "two"), ("two", "one"):
        (folders[0] / folder).mkdir()
        (folders[0] / folder / "all.h").write_text(f'#pragma once\n#include "../{other}/all.h"\n')
    (folders[0] / "inner.h").write_text('#include "one/all.h"\n')
    assert digest(folders) is not None
    paths = [Path(path) for path, _, _ in included([(SOURCE, str(folders[0]))])]
    assert paths == [folders[0].resolve() / name for name in ("inner.h", "one/all.h", "own.h", "two/all.h")]


def test_a_folder_whose_name_is_no_text_has_a_digest(folders, tmp_path: Path) -> None:
    odd = tmp_path / "lat\udcfcn"
    try:
        folders[0].rename(odd)
    except OSError:  # file systems that take UTF-8 alone
        pytest.skip("the file system takes no such name")
    assert digest((odd, folders[1])) is not None


@pytest.mark.parametrize("line", ["#include FILE", "const char *when = __DATE__;", "#if __has_include(MACRO)\n#endif"])
def test_what_cannot_be_followed_is_not_kept(folders, line: str) -> None:
    assert digest(folders, f"{line}\n{SOURCE}") is None


@pytest.mark.parametrize("option", ["-include", "--pre-include=x.h", "-I", "--use-pch=a.pch"])
def test_options_that_name_files_keep_nothing(folders, option: str) -> None:
    assert digest(folders, options=(option,)) is None


def test_a_folder_among_the_options_is_searched_first(folders, tmp_path: Path) -> None:
    before = digest(folders, options=(f"-I{tmp_path}",))
    (tmp_path / "own.h").write_text("#define VALUE 3.0f\n")
    assert digest(folders, options=(f"-I{tmp_path}",)) != before


def test_a_second_compilation_takes_the_first_s_and_a_changed_header_does_not(folders, monkeypatch) -> None:
    user = folders[0]

    source = SOURCE.replace("#include <toolkit.h>\n", "")

    def build() -> CppBuild:
        return nvrtc.compile_cpp(CppUnit(source, "a.cu", folders=(str(user),)), "k", "sm_80")

    first = build()
    compiled: list[str] = []
    make = nvrtc.compile_here
    monkeypatch.setattr(nvrtc, "compile_here", lambda request: compiled.append(request.entry) or make(request))
    assert build() == first and not compiled
    (user / "inner.h").write_text("#define VALUE 2.0f\n")
    assert build().cubin != first.cubin and compiled == ["k"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"cubin": "!", "ptx": "a", "entry_name": "k"}', b"\xff\x00"])
def test_a_damaged_file_counts_as_not_there(folders, tmp_path: Path, content: bytes) -> None:
    write_build("name", b"code", "text", "k")
    assert read_build("name") == (b"code", "text", "k")
    (tmp_path / "cache" / "nvrtc" / "name.json").write_bytes(content)
    assert read_build("name") is None


def test_a_process_of_its_own_compiles_by_the_library_that_is_asked_for(tmp_path: Path, monkeypatch) -> None:
    """Where another package had loaded an older NVRTC, templates were compiled by the installed one and kept, and said
    in traces to be, the older one's."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(nvrtc, "library", lambda: str(tmp_path / "libnvrtc.so.12"))
    unit = CppUnit("template <int N> __global__ void k(int *x) { *x = N; }", "a.cu")
    with pytest.raises(ToolchainError, match=r"libnvrtc\.so\.12"):
        nvrtc.compile_cpp(unit, "k<3>", "sm_80")


def test_headers_that_no_wheel_brings_are_not_there_where_the_search_for_them_runs_out_of_time(monkeypatch) -> None:
    """A busy machine does not start the process that asks the system's linker within ten seconds."""

    def search(name: str) -> str:
        if name == "curand":
            raise ChildProcessError("Canary probe child process timed out after 10.0 seconds.")
        return f"/of/{name}"

    monkeypatch.setattr(nvrtc.pathfinder, "find_nvidia_header_directory", search)
    assert nvrtc.include_folders.__wrapped__() == ("/of/cccl", "/of/cudart")
