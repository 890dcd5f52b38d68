"""Are GPU descriptions complete, sourced, inherited singly, and refused when they are wrong?"""

from __future__ import annotations

import dataclasses

import pytest

from gpusim.errors import SpecError, UnknownGpuError
from gpusim.gpus import describe_gpu, list_gpus, load_gpu, override_gpu
from gpusim.gpus.load import KINDS
from gpusim.gpus.spec import PIPE_NAMES
from gpusim.trace.record import PipeClass


def write(folder, text):
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def claim(value, kind="guess", source="test"):
    return f'{{ value = {value}, kind = "{kind}", source = "{source}" }}'


def test_pipe_names_are_those_of_the_trace():
    assert PIPE_NAMES == tuple(p.name.lower() for p in PipeClass)


def test_the_four_gpus_of_the_first_release_are_built_in():
    assert {"a100_80gb", "gh200", "h100", "h200"} <= set(list_gpus())


@pytest.mark.parametrize("name", list_gpus())
def test_every_value_of_every_gpu_has_a_source(name):
    spec = load_gpu(name)
    rows = describe_gpu(name)
    assert spec.name == name
    assert len({key for key, *_ in rows}) == len(rows) > 100
    for key, value, kind, source in rows:
        assert kind in KINDS and source.strip(), key
        assert value is not None


def test_h200_restates_only_its_memory():
    h200, gh200 = load_gpu("h200"), load_gpu("gh200")
    assert h200.dram.peak_bytes_per_ns == 4800.0
    assert dataclasses.replace(h200.dram, **dataclasses.asdict(gh200.dram)) == gh200.dram
    assert (h200.sm, h200.l1, h200.l2, h200.pipes) == (gh200.sm, gh200.l1, gh200.l2, gh200.pipes)


def test_a_users_file_overrides_a_built_in_singly(tmp_path):
    path = write(tmp_path, f'inherits = "h200"\nsm_count = {claim(4)}\n[l1]\nways = {claim(8)}\n')
    mine, base = load_gpu(path), load_gpu("h200")
    assert (mine.name, mine.sm_count, mine.l1.ways) == ("mine", 4, 8)
    assert dataclasses.replace(mine, name="h200", sm_count=132, l1=base.l1) == base
    assert ("l1.ways", 8, "guess", "test") in describe_gpu(path)


def test_a_pipes_row_may_be_overridden_in_part(tmp_path):
    row = '{ interval_cycles = 3, kind = "guess", source = "test" }'
    mine = load_gpu(write(tmp_path, f'inherits = "h200"\n[pipes]\nfma = {row}\n'))
    assert mine.pipes["fma"].interval_cycles == 3
    assert mine.pipes["fma"].latency_cycles == load_gpu("h200").pipes["fma"].latency_cycles


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[l2]\nwayz = " + claim(4), "l2.wayz; did you mean l2.ways"),
        ("smcount = " + claim(4), "did you mean sm_count"),
        ("sm_count = 4", "sm_count must be { value, kind, source }"),
        ("sm_count = { value = 4, kind = 'guess' }", "lacks its 'source'"),
        ("sm_count = " + claim(4, kind="rumour"), "known kinds"),
        ("sm_count = " + claim(4, source=" "), "source in words"),
        ("sm_count = " + claim('"many"'), "whole number"),
        ("sm_count = " + claim("true"), "whole number"),
        ("sm_count = " + claim(0), "positive"),
        ("sm_count = " + claim(-3), "positive"),
        ("sm_count = " + claim(100_000), "above 4096"),
        ("clock_hz = " + claim("nan"), "finite"),
        ("clock_hz = " + claim("0.0"), "positive"),
        ("capability = " + claim("[8]"), "2 numbers"),
        ("[l2]\ntotal_bytes = " + claim(50_000_000), "whole number of sets"),
        ("[l2]\npartitions = " + claim(3), "must be 1 or 2"),
        ("[dram]\nefficiency = " + claim(1.2), "cannot exceed 1"),
        ("[dram]\nrow_miss_extra_ns = " + claim(1000.0), "must be below it"),
        ("[l1]\nline_bytes = " + claim(96), "power of two"),
        ("[crossbar]\nrequest_latency_ns = " + claim(0.0), "too short"),
        ("[sm]\nshared_carveouts_kib = " + claim("[8, 0]"), "ascending"),
        ("[pipes]\nfmaa = " + '{ interval_cycles = 1, kind = "guess", source = "t" }', "pipes.fma"),
        ("[pipes]\nfma = { interval_cycles = 1 }", "lacks its"),
        ("sm_count = [", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_by_file_and_key(tmp_path, text, message):
    path = write(tmp_path, f'inherits = "h200"\n{text}\n')
    with pytest.raises(SpecError) as caught:
        load_gpu(path)
    assert message in str(caught.value) and "mine.toml" in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_missing_key_is_named(tmp_path):
    with pytest.raises(SpecError, match="missing key"):
        load_gpu(write(tmp_path, "sm_count = " + claim(4)))


def test_inheriting_in_a_circle_is_refused(tmp_path):
    with pytest.raises(SpecError, match="circle"):
        load_gpu(write(tmp_path, 'inherits = "mine.toml"\n'))


def test_inheriting_from_nobody_is_refused(tmp_path):
    with pytest.raises(UnknownGpuError):
        load_gpu(write(tmp_path, 'inherits = "h2000"\n'))


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "noise.toml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(SpecError, match="cannot be read"):
        load_gpu(path)


@pytest.mark.parametrize("name", ["h20", "H200 ", "", "no/such.toml", "x" * 5000, "a\0b.toml"])
def test_an_unknown_gpu_is_named_with_its_neighbours(name):
    with pytest.raises(UnknownGpuError) as caught:
        load_gpu(name)
    assert caught.value.exit_code == 5
    assert "h200" in str(caught.value)


def test_a_setting_changes_one_value_and_shows_in_the_name():
    base = load_gpu("h200")
    changed = override_gpu(base, ["l2.hit_latency_ns=60", "pipes.fma.interval_cycles = 3"])
    assert (changed.l2.hit_latency_ns, changed.pipes["fma"].interval_cycles) == (60.0, 3)
    assert changed.name == "h200[l2.hit_latency_ns=60][pipes.fma.interval_cycles=3]"
    was = (base.l2.hit_latency_ns, base.pipes["fma"].interval_cycles)
    back = override_gpu(
        changed, [f"l2.hit_latency_ns={was[0]}", f"pipes.fma.interval_cycles={was[1]}"]
    )
    assert dataclasses.replace(back, name="h200") == base
    assert override_gpu(base, ["sm_count=4"]).sm_count == 4


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("l2.hit_latency=60", "did you mean l2.hit_latency_ns"),
        ("l2.hit_latency_ns", "write key=value"),
        ("l2.hit_latency_ns=fast", "not a TOML value"),
        ("sm_count=0", "positive"),
        ("sm_count=1.5", "whole number"),
        ("l2.ways=7", "whole number of sets"),
    ],
)
def test_a_wrong_setting_is_refused(setting, message):
    with pytest.raises(SpecError, match=message):
        override_gpu(load_gpu("h200"), [setting])
