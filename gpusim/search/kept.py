"""Predictions of a search in a file, so that a search that was broken off goes on.

Mental model: a line is a JSON object, written whole. It is found again by all that decides a prediction: the case's
file, the GPU's description, the configuration, gpusim and the compilers (the line's key), and the source files that the
captured code names and its kernel was made from (with a digest each, as only the capture says which they are; with
what they include from their own folders and from those of ``headers=``). What was left out before anything was captured
has no such files; it is tried again, as its source may have been mended. So is a kernel of a file that is not found
again by its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from gpusim.errors import UsageError
from gpusim.frontend.native.included import included, included_by
from gpusim.frontend.native.kernels import CubinKernel, CudaCppKernel, PtxKernel, described, describes_cuda_cpp
from gpusim.io.package_digest import package_digest
from gpusim.io.records import as_record, read_json
from gpusim.io.whole_line import add_line

#: Packages that make machine code.
_COMPILERS = ("numba", "numba-cuda", "llvmlite", "triton", "nvidia-cuda-nvrtc", "nvidia-nvjitlink", "nvidia-nvvm", "nvidia-cuda-nvcc", "nvidia-cutlass-dsl")  # fmt: skip
#: What text and bytes that were in no file are called.
_NO_FILE = re.compile(r"source\d*\.\w+|cubin")


@dataclass(frozen=True)
class Predicted:
    """A configuration: its ``parameters``, the predicted ``time_us`` (None: left out, ``why`` says the reason), and
    whether that is the time of a part (COARSE) or of all (EXACT). ``factor``: a measurement should lie between the time
    over and times it (:mod:`gpusim.uncertainty`); 0 where only a part was simulated. ``failed``: the class of error
    that left it out."""

    parameters: Mapping[str, Any]
    time_us: float | None
    stage: str
    why: str = ""
    factor: float = 0.0
    failed: str = ""


class KeptPredictions:
    """The predictions of a file, where ``path`` is not None, and those that are added to it. Raises UsageError for a
    file of something else."""

    def __init__(self, path: Path | None, depends_on: str) -> None:
        base = "\0".join((depends_on, package_digest(), *_compilers()))
        self._path, self._base = path, hashlib.sha256(base.encode()).hexdigest()
        self._rows: dict[str, tuple[Predicted, dict[str, str]]] = {}
        self._digests: dict[str, str] = {}
        if path is not None and path.exists():
            self._rows = {row["key"]: (_predicted(row), row["files"]) for row in _read(path) if "files" in row}

    def _key(self, parameters: Mapping[str, Any], stage: str) -> str:
        return hashlib.sha256(f"{self._base}\0{stage}\0{as_text(parameters)}".encode()).hexdigest()

    def find(self, parameters: Mapping[str, Any], *stages: str) -> Predicted | None:
        """The prediction of a configuration, of the first of ``stages`` that has one; None where there is none, or a
        source has changed since."""
        for stage in stages:
            found, files = self._rows.get(self._key(parameters, stage), (None, {}))
            if found is not None and all(self._digest(file) == digest for file, digest in files.items()):
                return replace(found, parameters=dict(parameters))
        return None

    def add(self, row: Predicted, sources: Iterable[str] | None) -> None:
        """Keep ``row``, whose code was made from ``sources``; not where nothing was captured (None). Raises as
        :func:`gpusim.io.whole_line.add_line`."""
        if self._path is None or sources is None:
            return
        files = {file: digest for file in _with_included(sources) if (digest := self._digest(file))}
        line = json.dumps({"key": self._key(row.parameters, row.stage), **asdict(row), "files": files}, default=str)
        add_line(self._path, line)

    def _digest(self, file: str) -> str:
        """Of a source file as it stands; empty where it cannot be read, as text that was never in a file."""
        if file not in self._digests:
            try:
                self._digests[file] = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:32]
            except (OSError, ValueError):
                self._digests[file] = ""
        return self._digests[file]


def _with_included(sources: Iterable[str]) -> list[str]:
    """``sources`` and the files beside them that they include, of which machine code may name no line."""
    found = set(sources)
    for file in list(found):
        with contextlib.suppress(OSError, ValueError):
            text = Path(file).read_text(errors="replace")
            found.update(path for path, *_ in included([(text, str(Path(file).parent))]))
    return sorted(found)


def files_of(kernel: object, folder: Path) -> set[str] | None:
    """The files that ``kernel``, of CUDA C++, PTX or machine code, was made from, beside those that its lines name: its
    own and those that it is linked with, where they lie in ``folder`` or the current one, and all that it includes from
    folders that it names. None where a file of its is in neither. Kernels of other languages have none."""
    if describes_cuda_cpp(kernel):
        kernel = described(kernel)
    if not isinstance(kernel, (CudaCppKernel, PtxKernel, CubinKernel)):
        return set()
    found: set[str] = set()
    for name, content in _contents(kernel):
        paths = [(each / name).absolute() for each in (folder, Path())]
        path = next((path for path in paths if _holds(path, content)), None)
        if path is None and not _NO_FILE.fullmatch(name):
            return None
        found.update([] if path is None else [str(path)])
    if isinstance(kernel, CudaCppKernel):
        found.update(path for path, *_ in included_by(kernel))
    return found


def _contents(kernel: CudaCppKernel | PtxKernel | CubinKernel) -> Iterator[tuple[str, bytes]]:
    """(name, content) of what came from a file whose folder the kernel does not say."""
    if isinstance(kernel, CudaCppKernel):
        yield from kernel.link
    elif isinstance(kernel, PtxKernel):
        yield from ((kernel.file, kernel.text.encode()), *kernel.link)
    else:
        yield kernel.file, kernel.code


def _holds(path: Path, content: bytes) -> bool:
    with contextlib.suppress(OSError):
        return path.read_bytes() == content
    return False


def as_text(parameters: Mapping[str, Any]) -> str:
    """``block=64, each=2``."""
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


class _Row(TypedDict):
    key: str
    parameters: dict[str, Any]
    time_us: float | None
    stage: str
    why: str
    factor: NotRequired[float]
    failed: NotRequired[str]
    files: NotRequired[dict[str, str]]  # rows that do not say what they were made from are not used


def _predicted(row: _Row) -> Predicted:
    return Predicted(
        row["parameters"], row["time_us"], row["stage"], row["why"], row.get("factor", 0.0), row.get("failed", "")
    )


def _read(path: Path) -> list[_Row]:
    """The rows of a file. What a kill has left of a last one is cut off, so that what is added begins a line."""
    try:
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        begun = data[whole:]
        if begun and _is_begun(begun):
            with path.open("rb+") as stream:
                stream.truncate(whole)
            data = data[:whole]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    rows = []
    for number, line in enumerate(data.splitlines(), 1):
        place = f"{path}, line {number}: no kept prediction; give another file, or remove it"
        try:
            value = read_json(line)
        except ValueError as error:
            raise UsageError(place) from error
        rows.append(as_record(_Row, value, place, UsageError))
    return rows


def _is_begun(line: bytes) -> bool:
    begin = b'{"key": "'
    return line.startswith(begin) or begin.startswith(line)


def _compilers() -> list[str]:
    found = []
    for name in _COMPILERS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
