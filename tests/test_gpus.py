"""Are GPU descriptions complete, sourced, inherited singly, and refused when they are wrong?"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from turing import BEYOND_TURING, BEYOND_VOLTA

from gpusim import gpus
from gpusim.cases.names import general_names
from gpusim.cases.suite import capture_case, make_case
from gpusim.engine.gpu import simulate
from gpusim.errors import CompileError, SpecError, UnknownGpuError
from gpusim.gpus import built_in_of, describe_gpu, diff_gpus, list_gpus, load, load_gpu, override_gpu
from gpusim.gpus.clock import at_clock
from gpusim.gpus.load import FORMERLY, KINDS
from gpusim.gpus.spec import PIPE_NAMES
from gpusim.trace.record import PipeClass


def write(folder, text):
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def claim(value, kind="guess", source="test"):
    return f'{{ value = {value}, kind = "{kind}", source = "{source}" }}'


def test_pipe_names_are_those_of_the_trace():
    assert tuple(p.name.lower() for p in PipeClass) == PIPE_NAMES


def test_a_built_in_gpu_is_read_again_where_its_file_or_its_parent_s_has_changed(tmp_path, monkeypatch):
    assert load_gpu("h200") is load_gpu("h200")
    for name in ("h200", "gh200"):
        shutil.copy(load._FOLDER / f"{name}.toml", tmp_path)
    monkeypatch.setattr(load, "_FOLDER", tmp_path)
    parent, before = tmp_path / "gh200.toml", load_gpu("h200")
    parent.write_text(parent.read_text().replace("clock_hz = { value = 1.98e9", "clock_hz = { value = 1.5e9"))
    assert before.clock_hz == 1.98e9 and load_gpu("h200") == dataclasses.replace(before, clock_hz=1.5e9)
    parent.unlink()
    with pytest.raises(UnknownGpuError, match="inherits from what is not there"):
        load_gpu("h200")


def test_gpus_from_turing_to_blackwell_are_built_in():
    data_center = {"t4", "a100_40gb", "a100_80gb", "a40", "l4", "l40", "h100", "h100_pcie", "h200", "gh200", "b200"}
    assert data_center | {"rtx3090", "rtx4090", "rtx5090"} <= set(list_gpus())


@pytest.mark.parametrize("name", list_gpus())
def test_every_value_of_every_gpu_has_a_source(name):
    spec = load_gpu(name)
    rows = describe_gpu(name)
    assert spec.name == name
    assert len({key for key, *_ in rows}) == len(rows) > 100
    for key, value, kind, source, stated_by in rows:
        assert kind in KINDS and source.strip(), key
        assert value is not None
        assert stated_by == "model" or stated_by in list_gpus(), key


def test_h200_restates_only_its_memory():
    h200, gh200 = load_gpu("h200"), load_gpu("gh200")
    assert h200.dram.peak_bytes_per_ns == 4800.0
    assert dataclasses.replace(h200.dram, **dataclasses.asdict(gh200.dram)) == gh200.dram
    assert (h200.sm, h200.l1, h200.l2, h200.pipes) == (gh200.sm, gh200.l1, gh200.l2, gh200.pipes)


def test_an_inherited_value_says_who_states_it():
    stated = {row.key: row.stated_by for row in describe_gpu("rtx4090")}
    assert stated["clock_hz"] == "rtx4090"
    assert stated["l2.hit_latency_ns"] == "l40"
    assert stated["sm.max_warps"] == "a40"
    assert stated["l1.tag_banks"] == "a100_80gb"


#: GPU -> FP32 and FP64 peak (TFLOP/s, from the datasheets), where clock and SM count were looked up
#: elsewhere: the SM's rates times clock and count must give them.
PEAKS_TFLOPS = {
    "v100": (15.7, 7.8),
    "t4": (8.1, 0.254),
    "a100_40gb": (19.5, 9.7),
    "a100_80gb": (19.5, 9.7),
    "a40": (37.4, 0.585),
    "rtx3090": (35.6, 0.556),
    "l4": (30.3, 0.473),
    "l40": (90.5, 1.41),
    "rtx4090": (82.6, 1.29),
    "h100": (66.9, 33.5),
    "h100_pcie": (51.2, 25.6),
    "h200": (66.9, 33.5),
    "gh200": (66.9, 33.5),
    "b200": (74.45, 37.2),
    "rtx5090": (104.8, 1.64),
    "rtx_a6000": (38.7, 0.605),
    "rtx_a4000": (19.2, 0.3),
    "a10": (31.2, 0.488),
    "a30": (10.3, 5.2),
    "a100_pcie_40gb": (19.5, 9.7),
    "h800": (66.9, 1.05),  # the datasheet rounds the two lanes of an SM to 1
    "l40s": (91.6, 1.43),
    "rtx_pro_6000": (125.0, 1.97),
    "rtx_pro_6000_server": (120.0, 1.875),
    "gb200": (80.0, 40.0),
    "rtx2080ti": (13.4, 0.42),
    "titan_rtx": (16.3, 0.51),
    "rtx2070_super": (9.06, 0.283),
    "rtx2070": (7.46, 0.233),
    "rtx3070ti_laptop": (17.5, 0.273),
    "titan_v": (14.9, 7.45),  # at its boost clock; the product page says 13.8 and 6.9, those of 1,350 MHz
    "rtx3080": (29.8, 0.465),
    "rtx3070": (20.3, 0.317),
    "rtx4060ti": (22.06, 0.345),
    "rtx4070": (29.15, 0.455),
    "rtx4070ti_super": (44.1, 0.689),
    "b300": (75.0, 1.17),  # the datasheet says 1.2 and 1.25
    "gb300": (80.0, 1.25),
    "a10g": (35.0, 0.547),
    "rtx3060": (12.7, 0.199),
    "rtx3080ti": (34.1, 0.533),
    "l20": (59.8, 0.927),
    "rtx_6000_ada": (91.1, 1.42),
    "rtx4070_super": (35.5, 0.554),
    "rtx4080": (48.7, 0.762),
    "h20": (39.5, 1.0),  # by its SMs at 1,980 MHz; its datasheet says 44 for FP32
    "h20_141gb": (39.5, 1.0),
    "h100_nvl": (60.3, 30.2),
    "rtx5060ti": (23.7, 0.37),
    "rtx5070": (30.9, 0.482),
    "rtx5070ti": (43.9, 0.687),
    "rtx5080": (56.3, 0.879),
    "rtx5080_laptop": (35.1, 0.549),  # 7,680 CUDA cores at 2,287 MHz
}


@pytest.mark.parametrize("name", list_gpus())
def test_pipes_clock_and_sm_count_give_the_peak_rates_of_the_datasheet(name):
    gpu = load_gpu(name)
    for pipe, tflops in zip(("fma", "fp64"), PEAKS_TFLOPS[name], strict=True):
        spec = gpu.pipes[pipe]
        units = gpu.sm_count * (1 if spec.shared_by_sm else gpu.sm.sub_cores)
        peak = 2 * 32 / spec.interval_cycles * units * gpu.clock_hz / 1e12
        assert peak == pytest.approx(tflops, rel=0.015), pipe


#: Results a clock and SM by the CUDA C++ Programming Guide's table of native arithmetic instructions, of the pipes for
#: which a row of it stands by itself. One measurement differs, and counts: reductions of a B300. Halves of 10.0 and the
#: ALUs of 12.0: the Best Practices Guide of CUDA 13 (64 packed additions, by XLA's cuda_core_info_table.cc; 128 minima,
#: 64 shifts), as measured; the Programming Guide of 12.9 has 256 halves. So does what NVIDIA says of a B300's special
#: function units (developer.nvidia.com/blog, Making softmax more efficient with NVIDIA Blackwell Ultra): twice a
#: B200's.
RATE_PIPES = ("half", "bfloat", "mufu", "convert", "convert_wide", "reduce", "alu", "alu_lite", "imad")
RATES = {
    (7, 0): (128, None, 16, 16, 16, None, 64, 64, 64),
    (7, 5): (128, None, 16, 16, 2, None, 64, 64, 64),
    (8, 0): (256, 128, 16, 16, 16, 16, 64, 64, 64),
    (8, 6): (128, 128, 16, 16, 2, 16, 64, 64, 64),
    (8, 9): (128, 128, 16, 16, 2, 16, 64, 64, 64),
    (9, 0): (256, 256, 16, 16, 16, 16, 64, 64, 64),
    (10, 0): (128, 128, 16, 16, 16, 32, 64, 64, 64),
    (10, 3): (128, 128, 32, 16, 16, 32, 64, 64, 64),
    (12, 0): (128, 128, 16, 16, 2, 16, 64, 128, 64),
}


@pytest.mark.parametrize("name", list_gpus())
def test_pipes_have_the_rates_of_the_programming_guide(name):
    gpu = load_gpu(name)
    for pipe, published in zip(RATE_PIPES, RATES[tuple(gpu.capability)], strict=True):
        spec = gpu.pipes[pipe]
        lanes = 32 / spec.interval_cycles * (1 if spec.shared_by_sm else gpu.sm.sub_cores)
        second = gpu.pipes["half_mma"]
        if second.own_unit and (pipe == "half" or (pipe == "bfloat" and published == 256)):
            lanes += 32 / second.interval_cycles * gpu.sm.sub_cores
        assert published in (None, lanes * (2 if pipe in ("half", "bfloat") else 1)), pipe


#: What the CUDA C++ Programming Guide's tables by capability say: warps and blocks an SM, shared memory an
#: SM and a block (KB), and what an L1 with all of it holds.
LIMITS = {
    (7, 0): (64, 32, 96, 96, 128),
    (7, 5): (32, 16, 64, 64, 96),
    (8, 0): (64, 32, 164, 163, 192),
    (8, 6): (48, 16, 100, 99, 128),
    (8, 9): (48, 24, 100, 99, 128),
    (9, 0): (64, 32, 228, 227, 256),
    (10, 0): (64, 32, 228, 227, 256),
    (10, 3): (64, 32, 228, 227, 256),
    (12, 0): (48, 24, 100, 99, 128),
}


@pytest.mark.parametrize("name", list_gpus())
def test_limits_are_those_of_the_capability(name):
    gpu = load_gpu(name)
    sm = gpu.sm
    shared = (sm.shared_max_bytes, sm.shared_per_block_max_bytes, gpu.l1.total_bytes)
    assert (sm.max_warps, sm.max_blocks, *(size // 1024 for size in shared)) == LIMITS[gpu.capability]
    assert sm.shared_carveouts_kib[-1] * 1024 == sm.shared_max_bytes


@pytest.mark.parametrize("name", list_gpus())
def test_memory_figures_fit_together(name):
    gpu = load_gpu(name)
    ports = gpu.sm_count * gpu.l1.fill_bytes_per_cycle * gpu.clock_hz / 1e9
    slices = gpu.l2.slices * gpu.l2.slice_bytes_per_ns
    assert gpu.dram.peak_bytes_per_ns < slices, "L2 must be faster than the DRAM behind it"
    assert gpu.dram.peak_bytes_per_ns < ports
    assert gpu.l2.partitions == 2 or gpu.l2.far_hit_extra_ns == gpu.l2.far_miss_extra_ns == 0
    assert gpu.dram.total_bytes > gpu.l2.total_bytes > gpu.l1.total_bytes


def simulate_small(name, gpu):
    """Cycles of a suite kernel's small shape, captured for the GPU's own architecture."""
    case = make_case(name, {}, gpu, small=True)
    launches = capture_case(case, gpu)
    case.check()
    assert {launch.trace.launch.capability for launch in launches} == {gpu.capability}
    result = simulate([launch.trace for launch in launches if launch.timed], gpu)
    assert result.cycles > gpu.launch.start_cycles
    return result.cycles


@pytest.mark.parametrize("name", ["t4", "rtx3090", "l4", "b200", "rtx5090", "h100_pcie"])
def test_a_kernel_runs_as_its_architectures_machine_code(name):
    gpu = load_gpu(name)
    slower = override_gpu(gpu, [f"dram.miss_latency_ns={gpu.dram.miss_latency_ns + 500}"])
    assert simulate_small("saxpy", slower) > simulate_small("saxpy", gpu) + gpu.cycles(400)


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", list_gpus())
@pytest.mark.parametrize("name", [name for name in general_names() if not name.startswith("triton_")])
def test_every_kernel_simulates_on_every_gpu(name, gpu):
    if name in {(7, 0): BEYOND_VOLTA, (7, 5): BEYOND_TURING}.get(load_gpu(gpu).capability, ()):
        with pytest.raises(CompileError, match=r"does not (compile|link) for sm_7|no code for sm_70"):
            simulate_small(name, load_gpu(gpu))
        return
    simulate_small(name, load_gpu(gpu))


def test_a_users_file_overrides_a_built_in_singly(tmp_path):
    path = write(tmp_path, f'inherits = "h200"\nsm_count = {claim(4)}\n[l1]\nways = {claim(8)}\n')
    mine, base = load_gpu(path), load_gpu("h200")
    assert (mine.name, mine.sm_count, mine.l1.ways) == ("mine", 4, 8)
    assert dataclasses.replace(mine, name="h200", sm_count=132, l1=base.l1) == base
    assert ("l1.ways", 8, "guess", "test", "mine") in describe_gpu(path)
    assert built_in_of(path) == "h200" and built_in_of("h200") == "h200"
    differing = {ours.key: (ours.value, theirs.value) for ours, theirs in diff_gpus("h200", path)}
    assert differing == {"sm_count": (132, 4), "l1.ways": (4, 8)}
    assert diff_gpus(path, path) == []


def test_a_file_from_before_pipes_were_told_apart_has_them_as_they_were(tmp_path):
    whole = (Path(gpus.__file__).parent / "gh200.toml").read_text()
    lines = [line for line in whole.splitlines() if line.partition(" ")[0] not in FORMERLY]
    assert {"reduce", "convert_wide", "bfloat", "half_mma", "viadd"} <= set(FORMERLY)
    assert len(lines) == len(whole.splitlines()) - 5  # the others are as what they were part of
    old = load_gpu(write(tmp_path, "\n".join(lines)))
    assert all(old.pipes[pipe] == old.pipes[former] for pipe, former in FORMERLY.items())
    with pytest.raises(SpecError, match=r"pipes\.vote\.interval_cycles"):
        load_gpu(write(tmp_path, "\n".join(line for line in lines if not line.startswith("vote = "))))


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
        ("sm_count = " + claim(100_000), "at most 4096, not 100000"),
        ("clock_hz = " + claim("nan"), "finite"),
        ("clock_hz = " + claim("0.0"), "positive"),
        ("capability = " + claim("[8]"), "2 numbers"),
        ("[l2]\ntotal_bytes = " + claim(50_000_000), "whole number of sets"),
        ("[l2]\npartitions = " + claim(3), "must be 1 or 2"),
        ("[dram]\nefficiency = " + claim(1.2), "at most 1, not 1.2"),
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


@pytest.mark.parametrize("name", ["h20x", "H201 ", "", "x" * 5000])
def test_an_unknown_gpu_is_named_with_its_neighbours(name):
    with pytest.raises(UnknownGpuError) as caught:
        load_gpu(name)
    assert caught.value.exit_code == 5
    assert "h200" in str(caught.value)


@pytest.mark.parametrize("name", ["no/such.toml", "a\0b.toml"])
def test_a_gpu_file_that_is_not_there_is_named(name):
    with pytest.raises(UnknownGpuError, match="no GPU file"):
        load_gpu(name)


def test_a_file_that_cannot_be_simulated_is_not_shown_either(tmp_path):
    path = tmp_path / "huge.toml"
    path.write_text('inherits = "h200"\nsm_count = { value = 5000, kind = "guess", source = "what if" }\n')
    for read in (load_gpu, describe_gpu):
        with pytest.raises(SpecError, match=r"sm_count must be positive and at most 4096, not 5000"):
            read(path)


def test_a_setting_changes_one_value_and_shows_in_the_name():
    base = load_gpu("h200")
    changed = override_gpu(base, ["l2.hit_latency_ns=60", "pipes.fma.interval_cycles = 3"])
    assert (changed.l2.hit_latency_ns, changed.pipes["fma"].interval_cycles) == (60.0, 3)
    assert changed.name == "h200[l2.hit_latency_ns=60][pipes.fma.interval_cycles=3]"
    was = (base.l2.hit_latency_ns, base.pipes["fma"].interval_cycles)
    back = override_gpu(changed, [f"l2.hit_latency_ns={was[0]}", f"pipes.fma.interval_cycles={was[1]}"])
    assert dataclasses.replace(back, name="h200") == base
    assert override_gpu(base, ["sm_count=4"]).sm_count == 4


def test_crossbar_and_l2_follow_the_clock_and_dram_does_not():
    base = load_gpu("a100_80gb")
    half = override_gpu(base, ["clock_hz=705e6", "l2.tag_interval_ns=1.0"])
    assert half.name == "a100_80gb[clock_hz=705000000.0][l2.tag_interval_ns=1.0]"
    for room, name in (("crossbar", "request_latency_ns"), ("l2", "hit_latency_ns"), ("l2", "far_miss_extra_ns")):
        assert half.cycles(getattr(getattr(half, room), name)) == pytest.approx(
            base.cycles(getattr(getattr(base, room), name))
        )
    assert half.l2.slice_bytes_per_ns == pytest.approx(base.l2.slice_bytes_per_ns * 0.5**0.46)
    assert half.l2.tag_interval_ns == 1.0
    assert (half.dram, half.tlb, half.l1) == (base.dram, base.tlb, base.l1)
    assert at_clock(base, base.clock_hz) is base


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("l2.hit_latency=60", "did you mean l2.hit_latency_ns"),
        ("l2.hit_latency_ns", "write key=value"),
        ("l2.hit_latency_ns=fast", "not a TOML value"),
        ("sm_count=0", "positive"),
        ("sm_count=1.5", "whole number"),
        ("l2.ways=7", "whole number of sets"),
        ("sm_count=*much", "not a TOML value"),
        ("title=*2", "no number that could be multiplied"),
        ("sm_count=*true", "a factor is no number"),
        ("sm_count=*1e999", "is no number of a GPU"),
        ("sm_count=*0", "positive"),
    ],
)
def test_a_wrong_setting_is_refused(setting, message):
    with pytest.raises(SpecError, match=message):
        override_gpu(load_gpu("h200"), [setting])


def test_a_setting_may_multiply_what_the_gpu_has():
    base = load_gpu("h200")
    changed = override_gpu(base, ["dram.peak_bytes_per_ns=*1.5", "sm_count=*0.5"])
    assert (changed.dram.peak_bytes_per_ns, changed.sm_count) == (1.5 * base.dram.peak_bytes_per_ns, base.sm_count // 2)
    assert changed.name == "h200[dram.peak_bytes_per_ns=7200.0][sm_count=66]"


@pytest.mark.parametrize(
    ("gpu", "setting", "message"),
    [
        ("a100_40gb", "tma.queue_entries=4", "a100_40gb has no tensor memory accelerator; .* e.g. h200"),
        ("h200", "tensor_memory.columns_per_cycle=2.0", "h200 has no tensor memory; .* e.g. b200"),
    ],
)
def test_a_unit_that_a_gpu_lacks_cannot_be_set(gpu, setting, message):
    with pytest.raises(SpecError, match=message):
        override_gpu(load_gpu(gpu), [setting])
    assert override_gpu(load_gpu("b200"), [setting]).name.startswith("b200[")
