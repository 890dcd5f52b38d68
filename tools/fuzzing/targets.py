"""Everything that gpusim reads from disk, each with its seeds, its mutation and the reader under test.

Mental model: a target's ``read`` does with a file what a command does, up to what would take long for a sound one: it
opens, checks, and puts into text what the command would print. So a value that only breaks the printing is found too.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzzing import native_readers as native
from fuzzing import production_seeds as production
from fuzzing import seeds
from fuzzing.byte_mutations import Mutation, mutate_bytes, mutate_text
from fuzzing.elf_mutations import mutate_elf
from fuzzing.fat_mutations import mutate_fat
from fuzzing.json_mutations import mutate_json, mutate_json_lines
from fuzzing.store_mutations import mutate_store
from fuzzing.table_mutations import mutate_table
from fuzzing.trace_mutations import mutate_trace
from gpusim.cases.suite import complete_shape
from gpusim.collective.node import node_of
from gpusim.commands.foreign_code import announce_code
from gpusim.commands.trace_facts import facts
from gpusim.compare.baseline import against_baseline, kept_lines
from gpusim.compare.known_error import known_errors
from gpusim.errors import CompileError, GpusimError, SpecError, ToolchainError, UsageError
from gpusim.execution.chakra_file import read_groups, read_trace
from gpusim.execution.replay import replayed
from gpusim.execution.result import node_records, path_records, rank_records
from gpusim.explore.choose import choose, load_suite, read_histogram
from gpusim.explore.coverage import Coverage
from gpusim.explore.examples import Examples
from gpusim.explore.finding import Finding
from gpusim.explore.named_suites import expand_suites
from gpusim.explore.property_registry import make_property
from gpusim.frontend.native.images import kernels_in, modules_of, suitable
from gpusim.gpus.describe import describe_gpu
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.io.records import read_json
from gpusim.isa.binary.cubin import kernels_of, load_kernel
from gpusim.isa.binary.decode import parse_instruction
from gpusim.isa.binary.elf import image_size, parse_elf
from gpusim.isa.survey import survey_cubin
from gpusim.measure.builds import Pack
from gpusim.measure.session import METHODS, ReplayDriver
from gpusim.production.file import read, write
from gpusim.production.imports.importing import imported
from gpusim.production.node_durations import projected_durations
from gpusim.regress.result_file import read_result
from gpusim.report.comparison import change_records
from gpusim.report.html import render_page
from gpusim.report.markdown import markdown_comment
from gpusim.report.saved import load_result
from gpusim.report.tables import format_records
from gpusim.silicon.imports import formats, ncu_report
from gpusim.silicon.published import load_published
from gpusim.silicon.recorded import load_recorded
from gpusim.store import open_store
from gpusim.store.flat import TABLES
from gpusim.trace.record import Trace

MIB = 1 << 20


@dataclass(frozen=True)
class Target:
    """``about``: what is read. ``seeds``: sound files. ``file``: the name that an input gets. ``most_bytes``: by how
    much the process may grow for one input, whatever it claims to hold. ``slow``: it starts a program, or simulates:
    some tens of inputs a second.
    """

    name: str
    about: str
    seeds: Callable[[], list[bytes]]
    mutate: Mutation
    read: Callable[[Path], object]
    file: str
    most_bytes: int = 128 * MIB
    slow: bool = field(default=False, kw_only=True)


def _encoded(records: Sequence[dict]) -> None:
    """As a command prints them."""
    for form in ("table", "json"):
        format_records(list(records), form).encode()


def _trace(path: Path) -> None:
    _encoded([facts(path, check=True)])
    trace = Trace.load(path)
    for _ in trace.chunks():
        pass


def _simulated(path: Path) -> str:
    from gpusim.engine.gpu import simulate  # the other targets need no engine

    trace = Trace.load(path)
    try:
        result = simulate(trace, gpu="h200")
    except GpusimError as error:
        raise type(error)(f"{path}: {error}") from None
    return f"simulated, {len(str(result.cycles))} digits"


def _cubin(path: Path) -> None:
    data = path.read_bytes()
    try:
        for name in kernels_of(parse_elf(data))[:4] or [None]:
            image = load_kernel(data, name, line_data=data)
            image.symbol("x")
        image_size(lambda at, count: data[at : at + count].ljust(count, b"\0"), 1 << 30)
    except CompileError as error:
        raise CompileError(f"{path}: {error}") from None


def _device_code(path: Path) -> str:
    data = path.read_bytes()
    images = [image for module in modules_of(data, str(path)) for image in module.images]
    for image in images[:64]:
        with contextlib.suppress(CompileError):
            image.content()
    kernels = kernels_in(suitable(data, str(path), (9, 0)), str(path))
    return f"{len(images)} images" if kernels else "no kernel"


def _survey(path: Path) -> None:
    try:
        for survey in survey_cubin(path.read_bytes())[1].values():
            _encoded([{"form": form.text, "reason": form.refused} for form in survey.counts])
    except (CompileError, ToolchainError) as error:
        raise CompileError(f"{path}: {error}") from None


def _disassembly(path: Path) -> str:
    try:
        texts = read_json(path.read_bytes())
        rows = [row for row in texts["0"] if len(row) == 3 and all(isinstance(text, str) for text in row)]
    except (ValueError, KeyError, TypeError):
        return "no texts"
    for i, (guard, opcode, operands) in enumerate(rows):
        parse_instruction(16 * i, guard, opcode, operands, (0x123456789ABCDEF0 << 64) | 0xFEDCBA9876543210)
    return f"{len(rows)} instructions"


def _gpu(path: Path) -> None:
    load_gpu(path)
    _encoded([row._asdict() for row in describe_gpu(path)])


_H200 = load_gpu("h200")


def _settings(path: Path) -> None:
    text = path.read_text("utf-8", "surrogateescape")
    try:
        override_gpu(_H200, text.split("\n"))
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


_IMPORTERS = formats.importers()


def _rows(path: Path) -> None:
    # Which packages are installed does not change; and NVIDIA's reader, a process of its own, is asked for its own
    # files alone.
    find, formats.importers = formats.importers, lambda: _IMPORTERS
    module = ncu_report.interface
    if path.suffix != ".ncu-rep":
        ncu_report.interface = None
    try:
        rows = formats.read_rows(path)
    finally:
        formats.importers, ncu_report.interface = find, module
    _encoded([{"kernel": row.kernel, "shape": row.shape, "row": row.to_json()} for row in rows])


def _store(path: Path) -> None:
    with open_store(path) as store:
        for info in store.list_runs():
            kept = store.load_run(info.id)
            for table in TABLES.values():
                _encoded(table([kept]))
            json.dumps(kept.documents)
            if "comparison" in kept.documents:
                _compared(kept.documents["comparison"], f"{path}: run {info.id}")


_TODAY = kept_lines(json.loads(seeds.baselines()[0]), "today")


def _baseline(path: Path) -> None:
    try:
        document = read_json(path.read_bytes())
    except ValueError as error:  # the store's reader says so
        raise UsageError(f"{path}: {error}") from None
    _compared(document, str(path))


def _compared(document: object, where: str) -> None:
    """As ``compare --baseline`` does: today's lines against those that are kept."""
    changes = change_records(against_baseline(_TODAY, kept_lines(document, where)))
    _encoded(changes)
    markdown_comment("today", "against before", [("changes", changes)]).encode()


def _finding(path: Path) -> None:
    finding = Finding.load(path)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        announce_code(path, finding, False)
    try:
        spec = override_gpu(load_gpu(finding.gpu), finding.settings)
        if finding.property != "versions":  # asks another Python
            make_property(finding.property, spec, finding.options)
        for case in (finding.worst, finding.minimal):
            complete_shape(finding.kernel, dict(case.shape), spec)
    except GpusimError as error:
        raise type(error)(f"{path}: {error}") from None
    _encoded([{"file": finding.name, "rule": finding.rule, "detail": finding.minimal.detail, "said": said.getvalue()}])


def _coverage(path: Path) -> None:
    coverage = Coverage.load(path)
    merged = coverage.merge(coverage)
    merged.holes()
    with contextlib.suppress(GpusimError):
        _encoded([choice.__dict__ for choice in choose(coverage, 3)])
    merged.save(path.with_name("again.json"))


def _execution(path: Path) -> None:
    spec = load_gpu("h100")
    trace = read_trace(path, 0)
    projected_durations(spec, trace)
    found = replayed(spec, node_of(spec), [trace], {"1": (0, 1)}, ranks=2)
    for records in (rank_records, path_records, node_records):
        format_records(records(found), "table")


def _groups(path: Path) -> None:
    read_groups(path)


def _production(path: Path) -> None:
    """As ``production import`` and its reports do: what is read is written, read again and printed."""
    kept = path.with_name("out.production")
    write(kept, imported([path]))
    found = read(kept)
    _encoded([{"source": each.name, "notes": "; ".join(each.notes)} for each in found.sources])
    _encoded([{"kernel": total.what.kernel, "launches": total.launches} for total in found.totals])
    _encoded([{"topic": fact.topic, "what": fact.summary} for fact in found.facts])


def _suite(path: Path) -> None:
    _encoded([choice.__dict__ for choice in load_suite(path)])
    with contextlib.suppress(GpusimError):
        expand_suites([str(path)])


def _search(path: Path) -> None:
    examples = Examples(path.parent, "q", "0123abcd")
    examples.refresh()
    Coverage().merge(*(tried.outcome.coverage for tried in examples.runs.values())).save(path.with_name("again.json"))


def _result(path: Path) -> None:
    load_result(path)
    read_result(path)


def _page(path: Path) -> None:
    render_page(load_result(path)).encode()


def _session(path: Path) -> None:
    driver = ReplayDriver(path)
    for name, arguments, _ in driver._calls:
        if name in METHODS and name not in ("load", "bind", "upload"):  # their arguments are kept as hashes
            getattr(driver, name)(*arguments)
        else:
            driver._next += 1


def _pack(path: Path) -> None:
    pack = Pack(path.parent)
    pack.toolchain().encode()
    with contextlib.suppress(GpusimError):
        pack.build(None, (), (9, 0), "saxpy:n=1#0")


def _model_error(path: Path) -> None:
    known_errors("h200", path.parent)("other")


def _manifest(path: Path) -> None:
    table = path.with_name("t.csv")
    table.write_bytes(seeds.tables()[0])
    path.write_bytes(path.read_bytes().replace(b'"sha256": ""', b'"sha256": "%s"' % _digest(table)))
    _encoded([{"point": point.point, "value": point.value} for point in load_published(path.parent)])


def _table(path: Path) -> None:
    manifest = json.loads(seeds.manifests()[0])
    rows = max(0, len(path.read_bytes().splitlines()) - 1)
    manifest["tables"][0] |= {"sha256": _digest(path).decode(), "rows": rows}
    path.with_name("manifest.json").write_text(json.dumps(manifest))
    _encoded([{"point": point.point, "value": point.value} for point in load_published(path.parent)])


def _recorded(path: Path) -> None:
    row = path.with_name("rows.jsonl")
    row.write_bytes(seeds.rows()[0])
    path.write_bytes(path.read_bytes().replace(b"0" * 64, _digest(row)))
    load_recorded(path.parent.parent)


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).hexdigest().encode()


_ALL = (
    Target("trace", "trace files, below their hashes", seeds.traces, mutate_trace, _trace, "in.trace", 1024 * MIB),
    Target(
        "simulate",
        "traces as far as a simulation",
        seeds.traces,
        mutate_trace,
        _simulated,
        "in.trace",
        1024 * MIB,
        slow=True,
    ),
    Target("cubin", "ELF images and their tables", lambda: seeds.kept("*.cubin*"), mutate_elf, _cubin, "in.cubin"),
    Target(
        "device-code",
        "fat binaries, programs and archives",
        seeds.fat_binaries,
        mutate_fat,
        _device_code,
        "in.so",
        1024 * MIB,
    ),
    Target(
        "survey", "cubins through nvdisasm", lambda: seeds.kept("*.cubin*"), mutate_elf, _survey, "in.cubin", slow=True
    ),
    Target("ptx", "PTX, as far as its assembler", seeds.ptx_texts, mutate_text, native.read_ptx, "in.ptx"),
    Target(
        "assemble",
        "PTX through its assembler",
        seeds.ptx_texts,
        mutate_text,
        native.assemble,
        "in.ptx",
        1024 * MIB,
        slow=True,
    ),
    Target(
        "cuda-cpp",
        "CUDA C++ through NVRTC",
        seeds.sources,
        mutate_text,
        native.compile_source,
        "in.cu",
        1024 * MIB,
        slow=True,
    ),
    Target(
        "machine-code",
        "a kernel of a file, linked where it must be",
        seeds.machine_code,
        mutate_fat,
        native.load_machine_code,
        "in.fatbin",
        1024 * MIB,
        slow=True,
    ),
    Target(
        "launch", "kernels and arguments of a command line", seeds.launches, mutate_text, native.read_launch, "launch"
    ),
    Target("disassembly", "kept texts of nvdisasm", seeds.disassemblies, mutate_json, _disassembly, "in.json"),
    Target("gpu", "GPU files", seeds.gpu_files, mutate_text, _gpu, "in.toml"),
    Target("set", "settings of --set", seeds.settings, mutate_text, _settings, "settings"),
    Target("rows", "rows of gpusim measure", seeds.rows, mutate_json_lines, _rows, "in.jsonl"),
    Target("ncu-csv", "tables of ncu --csv", lambda: seeds.kept("ncu*.csv"), mutate_table, _rows, "in.csv"),
    Target("csv", "plain tables", lambda: seeds.kept("plain*.csv"), mutate_table, _rows, "in.csv"),
    Target("nvbench", "reports of nvbench", lambda: seeds.kept("nvbench*.json"), mutate_json, _rows, "in.json"),
    Target(
        "kernel-tuner",
        "Kernel Tuner's caches and T4 results",
        lambda: seeds.kept("kernel-tuner*.json"),
        mutate_json,
        _rows,
        "in.json",
    ),
    Target("cutlass", "tables of cutlass_profiler", lambda: seeds.kept("cutlass*.csv"), mutate_table, _rows, "in.csv"),
    Target("ncu-rep", "reports of Nsight Compute", seeds.reports, mutate_bytes, _rows, "in.ncu-rep", slow=True),
    Target("store", "SQLite stores", seeds.stores, mutate_store, _store, "store.sqlite"),
    Target("baseline", "comparisons that were kept", seeds.baselines, mutate_json, _baseline, "in.json"),
    Target("finding", "findings of explore", seeds.findings, mutate_json, _finding, "in.finding.json"),
    Target("coverage", "coverage files", seeds.coverages, mutate_json, _coverage, "in.json"),
    Target("suite", "suites of workloads", seeds.suites, mutate_json, _suite, "in.json"),
    Target("histogram", "histograms of production", seeds.histograms, mutate_table, read_histogram, "in.csv"),
    Target(
        "chakra",
        "execution traces and their replay",
        seeds.execution_traces,
        mutate_bytes,
        _execution,
        "in.0.et",
        slow=True,
    ),
    Target(
        "groups",
        "groups of execution traces",
        lambda: [b'{"1": [0, 1], "2": [2]}'],
        mutate_json,
        _groups,
        "groups.json",
    ),
    Target("kineto", "traces of PyTorch's profiler", production.kineto_traces, mutate_json, _production, "in.json"),
    Target("xla", "traces of XLA's profiler", production.xla_traces, mutate_json, _production, "in.trace.json"),
    Target("nsys", "exports of Nsight Systems", production.nsys_exports, mutate_store, _production, "in.sqlite"),
    Target("param", "PyTorch's execution traces", production.param_traces, mutate_json, _production, "et_rank0.json"),
    Target(
        "chakra-rows", "execution traces as production", seeds.execution_traces, mutate_bytes, _production, "in.0.et"
    ),
    Target("search", "runs of a search", seeds.searches, mutate_json_lines, _search, "runs-0123abcd-000-1-ab.jsonl"),
    Target("result", "results of simulate --save", seeds.results, mutate_json, _result, "in.json"),
    Target("page", "results, as far as their page", seeds.results, mutate_json, _page, "in.json", slow=True),
    Target("session", "recorded calls of a driver", seeds.sessions, mutate_json_lines, _session, "in.session"),
    Target("pack", "indexes of machine code", seeds.packs, mutate_json, _pack, "index.json"),
    Target(
        "model-error", "recorded errors of the model", seeds.model_errors, mutate_json, _model_error, "model_error.json"
    ),
    Target("manifest", "manifests of published tables", seeds.manifests, mutate_json, _manifest, "manifest.json"),
    Target("table", "published tables", seeds.tables, mutate_table, _table, "t.csv"),
    Target("recorded", "manifests of recorded rows", seeds.recorded_manifests, mutate_json, _recorded, "manifest.json"),
)
TARGETS = {target.name: target for target in _ALL}


def clean(folder: Path) -> None:
    """Remove what reading an input has left beside it."""
    for entry in os.scandir(folder):
        if entry.is_file():
            os.unlink(entry.path)
