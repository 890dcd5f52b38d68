"""Does a datasheet make the machine that it describes, and is one refused that makes none?"""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import msgspec
import pytest

from gpusim import cli
from gpusim.driver.device_attributes import attributes_of
from gpusim.engine.latencies import burst_ticks
from gpusim.errors import SpecError, UnknownGpuError, UsageError
from gpusim.gpus import datasheet as datasheets
from gpusim.gpus import describe_gpu, list_gpus, load_gpu
from gpusim.gpus.capability_rules import LIMITS
from gpusim.gpus.datasheet import Datasheet, Links, Memory, Rates, read_datasheet
from gpusim.gpus.make import GENERATIONS, make_gpu
from gpusim.gpus.make_memory import CODES_SHARE, DRAM_OWN_NS
from gpusim.gpus.memory_kinds import MEMORY_KINDS, MEMORY_OF
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.architectures import architecture
from gpusim.tile.machine import tile_machine

_BUS_WIDTH = 37  # CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH
SHEETS = sorted((Path(datasheets.__file__).parent / "datasheets").glob("*.toml"))
A40 = Datasheet(
    "an A40", "its datasheet", 84, 1740.0, 6.0, Memory("GDDR6", 48.0, 384, 696.0),
    Rates(fp32=37.4, fp64=0.585, f16=149.7, f16_f16=149.7, tf32=74.8, int8=299.3), (8, 6), "ampere",
)  # fmt: skip


def delivered(spec: GpuSpec) -> float:
    """Bytes a nanosecond of all slices."""
    return spec.l2.slices * spec.l2.slice_bytes_per_ns


def changed(**what) -> Datasheet:
    fields = {name: getattr(A40, name) for name in Datasheet.__struct_fields__}
    return Datasheet(**(fields | what))


@pytest.mark.parametrize("path", SHEETS, ids=lambda path: path.stem)
def test_a_gpu_that_is_made_is_what_its_datasheet_makes_today(path: Path) -> None:
    like = path.read_text().splitlines()[0].rpartition("--like ")[2]
    made = make_gpu(path.stem, read_datasheet(path), like)
    built_in = path.parents[1] / f"{path.stem}.toml"
    if "made by `gpusim gpus make`" in built_in.read_text():
        assert built_in.read_text() == made.text, f"gpusim gpus make {path.stem} --from {path} --like {like}"
        assert load_gpu(path.stem) == made.spec


@pytest.mark.parametrize(("tera", "interval"), [(5.0, 8), (10.7, 4)])
def test_special_function_units_come_in_powers_of_two(tera: float, interval: int) -> None:
    sheet = read_datasheet(next(path for path in SHEETS if path.stem == "b300"))
    rates = msgspec.structs.replace(sheet.dense_tflops, exponentials=tera)
    made = make_gpu("mine", msgspec.structs.replace(sheet, dense_tflops=rates), "b200")
    assert made.spec.pipes["mufu"].interval_cycles == interval


def test_what_a_datasheet_states_is_what_the_hand_written_file_says() -> None:
    made, own = make_gpu("mine", A40, "l40").spec, load_gpu("a40")
    assert (made.sm_count, made.clock_hz, made.capability) == (own.sm_count, own.clock_hz, own.capability)
    assert made.l2.total_bytes == own.l2.total_bytes and made.l2.slices == own.l2.slices
    for key in ("channels", "banks_per_channel", "row_bytes", "peak_bytes_per_ns", "total_bytes"):
        assert getattr(made.dram, key) == getattr(own.dram, key), key
    for key in ("f16_macs_per_cycle", "f16_f16_macs_per_cycle", "tf32_macs_per_cycle", "int8_macs_per_cycle"):
        assert getattr(made.tensor, key) == getattr(own.tensor, key), key
    for pipe in ("fma", "fp64", "tensor"):
        assert made.pipes[pipe].interval_cycles == own.pipes[pipe].interval_cycles, pipe
    assert made.pipes["fp64"].shared_by_sm


def test_the_file_that_is_printed_is_the_machine_that_was_checked(tmp_path: Path) -> None:
    made = make_gpu("mine", changed(title='quoted "A40" \\ \N{LATIN SMALL LETTER E WITH ACUTE}'), "ampere")
    (tmp_path / "mine.toml").write_text(made.text)
    assert load_gpu(tmp_path / "mine.toml") == made.spec
    kinds = {row.kind for row in describe_gpu(tmp_path / "mine.toml") if row.stated_by == "mine"}
    assert kinds == {"datasheet", "guess"}


def test_more_of_what_a_datasheet_counts_makes_more_of_the_machine() -> None:
    base = make_gpu("mine", A40, "a40").spec
    wide = make_gpu("mine", changed(memory=Memory("GDDR6", 48.0, 512, 928.0)), "a40").spec
    assert (wide.dram.channels, wide.l2.slices) == (32, 64) and (base.dram.channels, base.l2.slices) == (24, 48)
    fast = make_gpu("mine", changed(boost_clock_mhz=2 * 1740.0), "a40").spec
    assert fast.l2.slice_bytes_per_ns == pytest.approx(2 * base.l2.slice_bytes_per_ns, rel=1e-2)
    assert fast.l2.hit_latency_ns == base.l2.hit_latency_ns
    assert fast.tensor.f16_macs_per_cycle == base.tensor.f16_macs_per_cycle / 2  # the same rate at twice the clock


def test_limits_of_a_capability_are_those_that_machine_code_is_made_for() -> None:
    for capability, limits in LIMITS.items():
        row = architecture(capability)
        assert (limits["sm.max_warps"], limits["sm.max_blocks"]) == (row.sm_warps, row.sm_blocks)
        assert limits["sm.shared_max_bytes"] == row.sm_shared_bytes == 1024 * max(limits["sm.shared_carveouts_kib"])
        assert limits["sm.shared_per_block_max_bytes"] == row.block_shared_bytes
        assert limits["sm.shared_reserved_bytes"] == row.reserved_shared_bytes
    for name in list_gpus():
        spec = load_gpu(name)
        assert spec.l1.total_bytes == LIMITS[spec.capability]["l1.total_bytes"], name
        assert spec.sm.max_blocks == LIMITS[spec.capability]["sm.max_blocks"], name


def test_a_gpu_of_another_capability_has_its_own_limits_and_widths() -> None:
    """An A40 like an A100: another SM, a port half as wide, and no full-rate FP64 unit's latency."""
    made, own, base = make_gpu("mine", A40, "a100_80gb").spec, load_gpu("a40"), load_gpu("a100_80gb")
    assert made.sm.max_warps == own.sm.max_warps and made.sm.shared_carveouts_kib == own.sm.shared_carveouts_kib
    assert made.l1.total_bytes == own.l1.total_bytes and made.l1.fill_bytes_per_cycle == own.l1.fill_bytes_per_cycle
    a_clock_and_sm = [delivered(spec) / spec.clock_hz / spec.sm_count for spec in (made, base)]
    assert a_clock_and_sm[0] == pytest.approx(a_clock_and_sm[1] / 2, rel=0.01)
    assert made.pipes["fp64"].latency_cycles > 5 * base.pipes["fp64"].latency_cycles
    assert made.launch.start_cycles / made.clock_hz == pytest.approx(base.launch.start_cycles / base.clock_hz, rel=0.01)


def test_what_l2_delivers_goes_by_the_sms_as_far_as_slices_are_wide() -> None:
    """L40 and A40 have as many slices; the SMs of both take in a TPC's 32 bytes a clock when all read, though the L40's
    slices are twice as wide."""
    base = make_gpu("mine", A40, "a40").spec
    fewer = make_gpu("mine", changed(sm_count=42, dense_tflops=Rates()), "a40").spec
    assert delivered(fewer) == pytest.approx(delivered(base) / 2, rel=0.01)
    more = make_gpu("mine", changed(sm_count=168), "a40").spec  # a slice of 8.6 gives 32 bytes a clock
    assert more.l2.slice_bytes_per_ns == pytest.approx(32 * more.clock_hz / 1e9, rel=0.01)
    ada = make_gpu("mine", changed(sm_count=168, capability=(8, 9)), "a40").spec
    assert delivered(ada) == pytest.approx(2 * delivered(base), rel=0.01)
    assert ada.l1.fill_bytes_per_cycle == base.l1.fill_bytes_per_cycle


def test_of_what_dram_adds_the_chips_part_follows_its_clock() -> None:
    base = load_gpu("a40").dram.miss_latency_ns
    fast = make_gpu("mine", changed(boost_clock_mhz=2 * 1740.0), "a40").spec.dram.miss_latency_ns
    assert fast == pytest.approx(DRAM_OWN_NS + (base - DRAM_OWN_NS) / 2, abs=0.1)
    assert make_gpu("mine", A40, "a40").spec.dram.miss_latency_ns == base


def test_slices_follow_the_bus_whatever_the_channels_are() -> None:
    for kind, bits, slices in (("HBM2e", 5120, 80), ("HBM3", 6144, 96), ("HBM3", 5120, 80), ("GDDR6", 256, 32)):
        sheet = changed(memory=Memory(kind, 80.0, bits, 2000.0), l2_mib=48.0)
        assert make_gpu("mine", sheet, "h200" if kind.startswith("HBM") else "a40").spec.l2.slices == slices


def test_what_dram_reaches_is_of_its_own_kind() -> None:
    sheet = changed(memory=Memory("HBM2e", 80.0, 5120, 2039.0), capability=(9, 0))
    assert make_gpu("mine", sheet, "h200").spec.dram.efficiency == MEMORY_KINDS["HBM2e"].efficiency
    same = changed(memory=Memory("HBM3e", 80.0, 5120, 4000.0), capability=(9, 0))
    assert make_gpu("mine", same, "h200").spec.dram.efficiency == load_gpu("h200").dram.efficiency
    assert set(list_gpus()) <= MEMORY_OF.keys() and set(MEMORY_OF.values()) <= MEMORY_KINDS.keys()


@pytest.mark.parametrize("kind", MEMORY_KINDS)
@pytest.mark.parametrize("like", sorted({*GENERATIONS.values(), "gh200"}))
def test_every_kind_of_memory_fits_every_gpu(kind: str, like: str) -> None:
    bits = 5120 if kind.startswith("HBM") else 320
    spec = make_gpu("mine", changed(memory=Memory(kind, 80.0, bits, 2000.0), l2_mib=5.3), like).spec
    assert spec.dram.channels == bits // MEMORY_KINDS[kind].channel_bits


@pytest.mark.parametrize(
    ("name", "sheet", "like", "error", "message"),
    [
        ("a b", A40, "a40", UsageError, "'a b' is no name"),
        ("../a", A40, "a40", UsageError, "no name"),
        ("mine", A40, "a41", UnknownGpuError, "or a generation"),
        ("mine", changed(memory=Memory("GDDR9", 48.0, 384, 696.0)), "a40", SpecError, "known are GDDR6"),
        ("mine", changed(memory=Memory("GDDR6", 48.0, 384, 69_600.0)), "a40", SpecError, "is 1450 Gbit/s a pin"),
        ("mine", changed(sm_count=100_000), "a40", SpecError, "sm_count"),
        ("mine", changed(boost_clock_mhz=1.74), "a40", SpecError, "boost_clock_mhz is 1.74, .* MHz"),
        ("mine", changed(l2_mib=6144.0), "a40", SpecError, "l2_mib 6144 .* MiB of L2 and GiB of memory"),
        ("mine", changed(memory=Memory("GDDR6", 49_152.0, 384, 696.0)), "a40", SpecError, "GiB are asked for"),
        ("mine", changed(memory=Memory("GDDR6", 48.0, 383, 696.0)), "a40", SpecError, "bus_bits 383 is no multiple of 16"),
        ("mine", changed(dense_tflops=Rates(fp32=149.7)), "a40", SpecError, "fp32 149.7 is 128 multiply-adds a cycle"),
        ("mine", changed(capability=(900, 0)), "a40", SpecError, "capability"),
    ],
)  # fmt: skip
def test_what_makes_no_machine_is_refused_by_name(name, sheet, like, error, message) -> None:
    with pytest.raises(error, match=message):
        make_gpu(name, sheet, like)


def test_rates_with_sparsity_are_doubted_and_taken(tmp_path: Path, capsys) -> None:
    assert make_gpu("mine", A40, "a40").doubt == ""
    sparse = msgspec.structs.replace(A40.dense_tflops, f16=299.4, int8=598.6)
    made = make_gpu("mine", changed(dense_tflops=sparse), "a40")
    assert made.doubt.startswith("dense_tflops: f16 299.4, int8 598.6: twice what an SM of a40")
    assert made.spec.tensor.f16_macs_per_cycle == 2 * load_gpu("a40").tensor.f16_macs_per_cycle
    sheet = tmp_path / "l40s.toml"
    sheet.write_text(next(path for path in SHEETS if path.stem == "l40s").read_text())
    assert cli.run(["gpus", "make", "mine", "--from", str(sheet), "--like", "l40"]) == 0
    out, error = capsys.readouterr()
    assert error.startswith("note: dense_tflops: f16 362.05") and out.startswith("# ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "missing required field `title`"),
        ("title = 1", "Expected `str`"),
        ("a = [", "not valid TOML"),
        ("\xff", "not valid TOML|Expected|missing"),
        (SHEETS[0].read_text() + "\nextra = 1\n", "extra"),
        (
            'title = "a"\nsource = "b"\nsm_count = 1\nboost_clock_mhz = 1000\nl2_mib = 1\nboost = 1',
            "a datasheet has title, source",
        ),
        ("[dense_tflops]\nfp4 = 1", r"`fp4` .*; \[dense_tflops\] of a datasheet has fp32, fp64, f16"),
        ("[memory]\nbits = 1", r"; \[memory\] of a datasheet has kind, gib"),
        (SHEETS[0].read_text().replace("sm_count = ", "sm_count = -"), "sm_count"),
        (SHEETS[0].read_text().replace("boost_clock_mhz = ", "boost_clock_mhz = 1e400 #"), "finite|<= 1"),
        (SHEETS[0].read_text().replace('title = "', 'title = "\\n'), "one line"),
    ],
)
def test_a_damaged_datasheet_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "sheet.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=message) as refused:
        read_datasheet(path)
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    text = SHEETS[0].read_text()
    marked, made = tmp_path / "sheet.toml", tmp_path / "mine.toml"
    marked.write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    assert read_datasheet(marked) == read_datasheet(SHEETS[0])
    made.write_bytes(make_gpu("mine", read_datasheet(marked), "a40").text.replace("\n", "\r\n").encode("utf-8-sig"))
    assert load_gpu(made).title == read_datasheet(marked).title


def test_the_command_writes_once_and_says_what_next(tmp_path: Path, capsys) -> None:
    out = tmp_path / "mine.toml"
    arguments = ["gpus", "make", "mine", "--from", str(SHEETS[0]), "--like", "ga10x"]
    assert cli.run([*arguments, "-o", str(out)]) == 0 and load_gpu(out).name == "mine"
    assert "gpusim gpus show" in capsys.readouterr().out
    assert cli.run([*arguments, "-o", str(out)]) == UsageError.exit_code
    assert "is there already" in capsys.readouterr().err
    assert cli.run(arguments) == 0 and capsys.readouterr().out == out.read_text()


@pytest.mark.parametrize(
    ("like", "sm_count", "f16", "unit", "rate", "of_warps"),
    [
        (
            "h200",
            78,
            148.0,
            "tensor.warpgroup_f16_macs_per_cycle",
            128.0,
            128.0,
        ),  # warps are no faster than warp groups
        (
            "h200",
            132,
            989.0,
            "tensor.warpgroup_f16_macs_per_cycle",
            512.0,
            309.0,
        ),  # and stay as measured where they are slower
        ("b200", 148, 1125.0, "tensor_memory.columns_per_cycle", 1.0, 309.0),
        ("a40", 84, 74.8, "tensor.f16_macs_per_cycle", 64.0, 64.0),
    ],
)
def test_a_datasheet_rates_the_newest_unit_of_the_tensor_cores(
    like: str, sm_count: int, f16: float, unit: str, rate: float, of_warps: float
) -> None:
    sheet = changed(
        capability=None, generation=None, sm_count=sm_count, boost_clock_mhz=load_gpu(like).clock_hz / 1e6, dense_tflops=Rates(f16=f16)
    )  # fmt: skip
    made = make_gpu("mine", sheet, like).spec
    assert attrgetter(unit)(made) == rate
    assert made.tensor.f16_macs_per_cycle == of_warps
    assert tile_machine(made, "fp16").flops_per_cycle * made.clock_hz * sm_count == pytest.approx(f16 * 1e12, rel=0.09)


@pytest.mark.parametrize("path", SHEETS, ids=lambda path: path.stem)
def test_a_program_is_told_the_width_of_the_memory_that_the_datasheet_says(path: Path) -> None:
    assert attributes_of(load_gpu(path.stem))[_BUS_WIDTH] == read_datasheet(path).memory.bus_bits


def test_the_gpus_that_users_ask_for_are_built_in() -> None:
    asked = {
        "rtx_a6000", "rtx_a4000", "a10", "a30", "a100_pcie_40gb", "h800", "l40s", "rtx_pro_6000", "gb200", "b300", "a10g", "h20",
        "h100_nvl", "l20", "rtx_6000_ada", "gb300", "rtx3060", "rtx4080", "rtx5080",
    }  # fmt: skip
    assert asked <= set(list_gpus())


@pytest.mark.parametrize(
    ("links", "like", "node"),
    [
        (Links(nvlink_gb_per_s=3600.0, gpus=144), "b200", {"gpus": 144, "link_bytes_per_ns": 1800.0, "ring_bytes_per_ns": 1440.0, "switch_sums": True}),
        (Links(nvlink_gb_per_s=600.0), "a40", {"link_bytes_per_ns": 300.0, "channels": 24, "packet_overhead_bytes": 32.0, "switch_sums": False}),
        (Links(pcie_gb_per_s=128.0), "h200", {"link_bytes_per_ns": 64.0, "channels": 2, "switch_sums": False}),
        (None, "h200", {"link_bytes_per_ns": 450.0, "switch_sums": True}),
    ],
)  # fmt: skip
def test_links_are_as_the_datasheet_rates_them_or_as_the_related_gpus(
    links: Links | None, like: str, node: dict
) -> None:
    made = make_gpu("mine", changed(links=links, capability=None, generation=None), like).spec.node
    assert {key: getattr(made, key) for key in node} == node


def test_what_a_board_may_take_is_stated_or_inherited() -> None:
    assert (
        make_gpu(
            "mine", changed(board_watts=1400.0, capability=None, generation=None), "b200"
        ).spec.board.power_limit_watts
        == 1400.0
    )
    assert make_gpu("mine", changed(capability=None, generation=None), "b200").spec.board.power_limit_watts == 1000.0


def test_error_codes_in_line_come_with_the_board_that_a_gpu_inherits_from(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('inherits = "a40"\n')
    mine, a40 = load_gpu(tmp_path / "mine.toml"), load_gpu("a40")
    assert mine.dram == a40.dram and a40.dram.codes_share == load_gpu("l40s").dram.codes_share == CODES_SHARE
    without = override_gpu(mine, ("dram.codes_share=0",))

    def read(spec: GpuSpec) -> float:
        return tile_machine(spec, "bf16").dram_bytes_per_cycle

    assert read(mine) / read(without) == pytest.approx(1 - CODES_SHARE)
    drams = {name: load_gpu(name).dram for name in list_gpus()}
    in_line = {name for name, dram in drams.items() if dram.codes_share}
    assert in_line == {"a10", "a10g", "a40", "l4", "l20", "l40", "l40s", "t4"}


def test_streams_that_were_measured_without_codes_are_so_at_the_exact_level() -> None:
    a40 = load_gpu("a40")
    assert a40.dram.stream_bytes_per_ns == pytest.approx(696 * 0.976)
    on = override_gpu(a40, ("dram.streams_with_codes=true",))
    assert burst_ticks(a40) / burst_ticks(on) == pytest.approx(1 - CODES_SHARE, rel=0.01)
    drams = {name: load_gpu(name).dram for name in list_gpus()}
    coded = {name for name, dram in drams.items() if dram.codes_share and dram.streams_with_codes}
    assert coded == {"a10", "a10g", "l4", "l20", "l40s", "t4"}


@pytest.mark.parametrize(("in_line", "like"), [(True, "ada"), (False, "ada"), (True, "rtx4090"), (False, "rtx4090")])
def test_a_datasheet_says_whether_error_codes_lie_in_line(in_line: bool, like: str) -> None:
    memory = Memory("GDDR6", 48.0, 384, 696.0, codes_in_line=in_line)
    made = make_gpu("mine", changed(memory=memory, generation="ada", capability=(8, 9)), like)
    assert made.spec.dram.codes_share == (CODES_SHARE if in_line else 0.0)
