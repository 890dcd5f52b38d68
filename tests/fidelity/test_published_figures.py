"""The published figures are the ones that the manifest names, and say what their source says."""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
from functools import cache
from pathlib import Path

import pytest

from gpusim.compare.points import default_points
from gpusim.compare.replay import REPLAYS
from gpusim.compare.run import ComparedGpu, WatchedBench, replay_group
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.silicon.published import Provenance, PublishedPoint, load_published

FOLDER = Path(__file__).parents[2] / "traces" / "published"


def values(gpu: str, series: str, **axes) -> list[float]:
    return [
        m.value
        for m in load_published()
        if (m.gpu, m.series) == (gpu, series) and all(m.axis(k) == v for k, v in axes.items())
    ]


def test_every_table_has_rows_hash_clock_and_source() -> None:
    tables = json.loads((FOLDER / "manifest.json").read_text())["tables"]
    assert {t["file"] for t in tables} == {p.name for p in FOLDER.glob("*.csv")}
    for table in tables:
        data = (FOLDER / table["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == table["sha256"]
        assert len(data.splitlines()) - 1 == table["rows"]
        assert table["source"]["commit"] and table["method"]
        assert all(gpu["sm_clock_mhz"] > 1000 for gpu in table["gpus"].values())
        assert all(set(gpu["fitted"]) <= set(table["kernels"]) for gpu in table["gpus"].values())


def test_no_point_is_there_twice() -> None:
    keys = [(m.gpu, m.series, m.point) for m in load_published()]
    assert len(keys) == len(set(keys))


def test_plateaus_are_those_that_other_measurements_report() -> None:
    """L1 hit and near L2 of A100 and GH200, as cycles; peak read bandwidth of A100's DRAM, in GB/s."""
    assert min(values("a100_80gb", "pointer_chase")) == pytest.approx(33.0, abs=0.2)
    assert statistics.median(values("a100_80gb", "pointer_chase")) == pytest.approx(205.7, abs=1)
    assert statistics.median(values("gh200", "pointer_chase")) == pytest.approx(280.4, abs=1)
    top = values("a100_80gb", "stream_read", block_threads=1024, blocks_per_sm=2)
    assert top == [pytest.approx(1776, rel=0.02)]


def test_an_altered_table_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "published"
    shutil.copytree(FOLDER, folder)
    table = folder / "stream.csv"
    table.write_text(table.read_text().replace("53", "54", 1))
    with pytest.raises(UsageError, match="stream.csv"):
        load_published(folder)


def test_a_missing_manifest_is_one_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="published"):
        load_published(tmp_path)


@cache
def groups() -> dict:
    found: dict = {}
    for m in load_published():
        found.setdefault((m.gpu, m.series), []).append(m)
    return found


@pytest.mark.parametrize(("gpu", "series"), groups())
def test_the_default_points_are_few_and_spread(gpu: str, series: str) -> None:
    all_points = groups()[gpu, series]
    chosen = default_points(all_points)
    assert chosen == [m for m in all_points if m in chosen], "published order is kept"
    if series in ("pointer_chase", "l1_read", "l2_read"):
        assert 3 <= len(chosen) <= 16
        low, high = min(m.value for m in all_points), max(m.value for m in all_points)
        assert max(m.value for m in chosen) - min(m.value for m in chosen) > 0.6 * (high - low)
    elif series.startswith(("stream", "stencil")):
        warps = [-(-m.axis("block_threads") // 32) * m.axis("blocks_per_sm") for m in chosen]
        assert min(warps) <= 4 and max(warps) == load_gpu(gpu).sm.max_warps


def test_a_gpu_may_have_series_that_its_description_was_set_from_and_others_held_out() -> None:
    fitted = {m.series: m.fitted for m in load_published() if m.gpu == "h200"}
    assert fitted["l2_read"] and fitted["l1_stride_tag_wavefronts"] and not fitted["stream_triad"]


def test_an_axis_that_only_one_kernel_of_a_table_has_is_left_out_of_the_others() -> None:
    axes = {m.series: dict(m.axes).keys() for m in load_published() if m.gpu == "h200"}
    assert "loads" in axes["stream_triad"] and "loads" not in axes["stream_scale"]


def test_figures_of_a_gpu_name_their_own_commit() -> None:
    commits = {m.gpu: m.source.commit for m in load_published() if m.series == "pointer_chase"}
    assert commits["l40"] != commits["h100_pcie"]


def test_a_board_in_another_state_is_replayed_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(bench: WatchedBench, point: PublishedPoint) -> float:
        seen.append(bench.gpu.dram.efficiency)
        return point.value

    monkeypatch.setitem(REPLAYS, "stream_init", watched)
    source = Provenance("", "", "", "")
    points = [
        PublishedPoint("h200", "stream_init", (), "GB/s", 1.0, 1980.0, source, board=board)
        for board in ((), ("dram.efficiency=0.81",))
    ]
    list(replay_group(ComparedGpu(load_gpu("h200"), "h200"), points))
    described = load_gpu("h200").dram.efficiency
    assert seen == [described, 0.81] and described != 0.81
    seen.clear()
    list(replay_group(ComparedGpu(override_gpu(load_gpu("h200"), ["dram.efficiency=0.5"]), "h200"), points))
    assert seen == [0.5, 0.5]
