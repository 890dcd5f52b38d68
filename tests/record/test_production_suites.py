"""From production to tests: which case stands for a launch, what has none, and how much time a finding's region
covers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from production_examples import ADD, GEMM, SECRET, row, rows, week, write_week

from gpusim.cases.names import refuse_unknown_request
from gpusim.cli import gpusim
from gpusim.commands import exploring
from gpusim.errors import FindingFileError, NoDataError
from gpusim.explore.choose import load_suite, read_histogram
from gpusim.explore.finding import Finding, Witness
from gpusim.explore.points import POINTS
from gpusim.explore.region import LabelledRun, Statement, learn
from gpusim.explore.suite_coverage import recorded_coverage
from gpusim.gpus.load import load_gpu
from gpusim.production import suite_cases
from gpusim.production.columns import NamedTotal, named
from gpusim.production.coverage_holes import Reach, basis_shares, point_records, standings
from gpusim.production.file import Production, write
from gpusim.production.names.kernel_name import FAMILIES
from gpusim.production.operator_shapes import input_dims, product_sizes, rows_and_columns
from gpusim.production.suite import workloads_of
from gpusim.production.suite_cases import NoCase, SuiteCase, case_of
from gpusim.production.weights import rules_of, time_inside

HALF = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
TF32 = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>(int)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*)"


def of(kernel: str, **what) -> NamedTotal:
    return rows(row(kernel, [1000], **what))[0]


@pytest.mark.parametrize(
    ("launch", "request_text", "basis"),
    [
        (of(GEMM, operator="aten::mm", shapes="[[128, 768], [768, 3072]]"), "sgemm_register:m=128,n=3072,k=768", "operator"),
        (of(GEMM, operator="aten::bmm", shapes="[[8, 64, 32], [8, 32, 48]]"), "sgemm_batched:batch=8,m=64,n=48,k=32", "operator"),
        (of(GEMM, operator="aten::addmm", shapes="[[64], [1, 32], [32, 64], [], []]"), "gemv:rows=64,columns=32,dtype=float32", "operator"),
        (of(HALF, operator="aten::linear", shapes="[[2, 16, 64], [24, 64], [24]]"), "hgemm_tensor:m=32,n=24,k=64", "operator"),
        (of(HALF, operator="aten::mm", shapes="[[8, 7], [7, 9]]"), "hgemm_tensor", "kernel"),  # no multiples of 8: another shape
        (of(GEMM), "sgemm_register", "kernel"),
        (of(ADD, grid=(3, 1, 1), block=(128, 1, 1)), "elementwise_fused:rows=3,columns=512,dtype=float32", "grid"),
        (of(ADD, grid=(3, 2, 1), block=(128, 1, 1)), "elementwise_fused:dtype=float32", "kernel"),
        (of(ADD, operator="aten::add_", shapes="[[4, 100], [4, 100], []]"), "elementwise_fused:rows=4,columns=100,dtype=float32", "operator"),
        (of("aten::mm", kind="operator", operator="aten::mm", shapes="[[16, 32], [32, 8]]", dtypes='["Tensor(c10::Half)"]'), "hgemm_tensor:m=16,n=8,k=32", "operator"),
        (of("matmul_kernel_0d1d2d", operator="aten::mm", shapes="[[16, 32], [32, 8]]", dtypes='["float", "float"]'), "sgemm_register:m=16,n=8,k=32", "operator"),
        (of(ADD, operator="mylib::add_rows", shapes="[[4, 100], [4, 100], []]"), "elementwise_fused:dtype=float32", "kernel"),
        (of(ADD, operator="CompiledFunction", shapes="[[4, 100], [4, 100], []]"), "elementwise_fused:dtype=float32", "kernel"),
        (of(SOFTMAX, operator="aten::_softmax", shapes="[[2, 3, 50], [], []]"), "softmax:rows=6,columns=50", "operator"),
        (of("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 64, 4, false, false, cutlass::half_t", operator="aten::_scaled_dot_product_flash_attention", shapes="[[1, 8, 100, 64], [1, 8, 100, 64]]"),
         "flash_attention:batch=1,heads=8,tokens=100,head_dim=64,dtype=float16", "operator"),
    ],
)  # fmt: skip
def test_a_case_stands_for_a_launch(launch: NamedTotal, request_text: str, basis: str) -> None:
    case = case_of(launch)
    assert isinstance(case, SuiteCase) and (case.request, case.basis) == (request_text, basis)
    refuse_unknown_request(case.request)


@pytest.mark.parametrize(
    ("kernel", "because"),
    [
        (SECRET, "does not say"), (TF32, "no product in tf32"), ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(int)", "collective"),
        ("Memcpy DtoD (Device -> Device)", "driver"), (ADD.replace("float", "double"), "not in fp64"),
        ("void cudnn::bn_bw_1C11_kernel_new<float, float>(int)", "batch_norm_backward"),
    ],
)  # fmt: skip
def test_what_has_no_case_says_why(kernel: str, because: str) -> None:
    case = case_of(of(kernel))
    assert isinstance(case, NoCase) and because in case.reason


def test_the_table_names_what_there_is() -> None:
    for (family, _), kernel in suite_cases._KERNELS.items():
        assert family in FAMILIES
        if isinstance(kernel, str):
            refuse_unknown_request(kernel)


def test_dimensions_that_are_none_give_no_size() -> None:
    assert (
        input_dims("[[1, 2], [], 'x']") == []
        and input_dims("[[1, -2], [3]]") == [[], [3]]
        and input_dims("[" * 5000) == []
    )
    assert input_dims("[[[2, 3], [4, 5]], [7]]") == [[], [7]]  # a list of tensors, and one
    assert product_sizes("aten::mm", "[[128, 768], [700, 3072]]") is None and product_sizes("aten::mm", "") is None
    assert rows_and_columns("[[], [2, 9], [3]]") == (2, 9) and rows_and_columns(f"[[{1 << 40}, {1 << 40}]]") is None


def test_shares_by_what_is_known(tmp_path: Path) -> None:
    found = standings(named(week()))
    assert {basis: round(share) for basis, share in basis_shares(found).items()} == {
        "operator": 0, "grid": 30, "kernel": 60, "none": 10
    }  # fmt: skip
    done = CliRunner().invoke(
        gpusim, ["production", "holes", str(write_week(tmp_path / "w.production")), "--format", "csv"]
    )
    holes = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(each["family"], float(each["share_percent"])) for each in holes] == [("unknown", pytest.approx(10))]
    assert "60 % with the kernel alone, 10 % have none" in done.stderr


def test_bins_are_reached_by_shape_or_known_of_the_kernel() -> None:
    coverage = recorded_coverage()
    example = next(e for hits in coverage.hits.values() for e in hits.examples if e.startswith("softmax:"))
    axes = dict(part.split("=") for part in example.partition(" @ ")[0].partition(":")[2].split(","))
    shape = f"[[{axes['rows']}, {axes['columns']}]]"
    launches = rows(row(SOFTMAX, [3000], operator="aten::_softmax", shapes=shape), row(GEMM, [1000]))
    records = point_records(standings(launches), Reach(coverage))
    assert len(records) == sum(len(point.bins) for point in POINTS.values())
    reached = [each for each in records if each["reached_percent"]]
    assert (
        reached
        and {each["reached_percent"] for each in reached} == {75.0}
        and all(each["suite"] == "yes" for each in reached)
    )
    assert {each["kernel_percent"] for each in records} == {0.0, 25.0}


def test_a_simulated_workload_reaches_its_bins() -> None:
    found = standings(rows(row(ADD, [1000], grid=(2, 1, 1), block=(128, 1, 1))))
    reach = Reach(recorded_coverage())
    (workload,) = workloads_of(found, 5)
    assert reach.simulate(workload.workload, load_gpu("a100_80gb")) == sum(
        case == (one, True) for case in reach.bins(found[0].case) for one in [case[0]]  # type: ignore[arg-type]
    )  # fmt: skip
    records = {(each["point"], each["bin"]): each for each in point_records(found, reach)}
    assert records["pipe", "alu"]["reached_percent"] == 100.0 and records["pipe", "fp64"]["reached_percent"] == 0.0


def test_a_suite_holds_the_workloads_with_most_time(tmp_path: Path) -> None:
    path, output, counts = write_week(tmp_path / "w.production"), tmp_path / "s.json", tmp_path / "h.csv"
    done = CliRunner().invoke(
        gpusim, ["production", "suite", str(path), "--by-kernel", "-o", str(output), "--histogram", str(counts)]
    )
    assert done.exit_code == 0 and "stand for 90 % of the time" in done.stderr
    choices = load_suite(output)
    assert [(each.workload, each.adds_percent) for each in choices] == [
        ("sgemm_register", 60.0), ("elementwise_fused:rows=32,columns=512,dtype=float32", 30.0)
    ]  # fmt: skip
    assert read_histogram(counts) == {each.workload: 10_000 * each.adds_percent for each in choices}
    shaped = workloads_of(standings(named(week())), 9)
    assert [each.workload for each in shaped] == [choices[1].workload]
    with pytest.raises(NoDataError, match="by-kernel"):
        workloads_of(standings(rows(row(GEMM, [1]))), 9)


def finding(rule: str, kernel: str = "sgemm_register") -> Finding:
    witness = Witness({"m": 1}, 0.5, "")
    return Finding("bounds", {}, "h200", (), kernel, witness, witness, rule, 1, 0, 0)


def product(m: int, time_ns: int) -> object:
    return row(GEMM, [time_ns], operator="aten::mm", shapes=f"[[{m}, 768], [768, 3072]]")


def test_a_divergence_covers_the_time_inside_its_region() -> None:
    found = standings(rows(product(100, 31), product(128, 469), row(GEMM, [200]), row(SECRET, [300])))  # type: ignore[arg-type]
    assert str(time_inside(finding("m % 32 != 0: +5 % to +12 %"), found)) == "3.1 to 23.1 %"
    assert str(time_inside(finding("every shape: -5 % to -3 %"), found)) == "70 %"
    assert (
        str(time_inside(finding("m < 128 and k >= 1000 or n == 3072 and m >= 128: -5 % to -3 %"), found))
        == "46.9 to 66.9 %"
    )
    assert (
        str(time_inside(finding("tile == 64: +5 % to +9 %"), found)) == "0 to 70 %"
    )  # an axis that production does not tell
    assert str(time_inside(finding("every shape: +1 % to +2 %", "saxpy"), found)) == "0 %"
    # Of a grid's elements rows and columns are not known.
    by_grid = standings(rows(row(ADD, [10], grid=(4, 1, 1), block=(128, 1, 1))))
    assert str(time_inside(finding("rows < 8: +1 % to +2 %", "elementwise_fused"), by_grid)) == "0 to 100 %"
    assert str(time_inside(finding("dtype == 'float16': +1 % to +2 %", "elementwise_fused"), by_grid)) == "0 %"


def test_a_rule_is_read_as_it_is_written() -> None:
    runs = [
        LabelledRun({"n": n, "dtype": dtype}, 0.2, n % 32 != 0 and dtype == "float16")
        for n in (1, 31, 32, 33, 64, 100, 128, 1000) for dtype in ("float16", "float32")
    ]  # fmt: skip
    region = learn(runs, {"n": 33, "dtype": "float16"})
    assert rules_of(str(region)) == region.rules and region.statements
    assert rules_of("every shape: +1 % to +2 %") == ((),)
    assert rules_of("a != 1.5 and b % 8 == 0: 1 % to 2 %") == ((Statement("a", "!=", 1.5), Statement("b", "%==", 8)),)
    for wrong in (
        "a",
        "a ~ 3: 1 %",
        "a < __import__('os'): 1 %",
        "a % 0 == 0: 1 %",
        "a % 8 == 1: 1 %",
        "a < (((: 1 %",
        "x" * 20_000,
    ):
        with pytest.raises(FindingFileError):
            rules_of(wrong)


def test_findings_are_weighted_by_production(tmp_path: Path) -> None:
    path = tmp_path / "w.production"
    write(path, Production([], [], [product(100, 31), row(SECRET, [969])], []))  # type: ignore[list-item]
    finding("m % 32 != 0: +5 % to +12 %").save(tmp_path)
    done = CliRunner().invoke(
        gpusim, ["production", "findings", str(path), "--finding", str(tmp_path), "--format", "json"]
    )
    (record,) = json.loads(done.stdout)
    assert record["time_percent"] == record["time_at_most_percent"] == pytest.approx(3.1)


def test_explore_tells_the_time_of_a_finding() -> None:
    launched = standings(rows(product(100, 31), row(SECRET, [969])))  # type: ignore[arg-type]
    one = finding("m % 32 != 0: +5 % to +12 %")
    assert exploring._record(one, Path("f"), launched)["production_time"] == "3.1 %"
    assert "production_time" not in exploring._record(one, Path("f"), [])
