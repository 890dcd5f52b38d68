"""wgmma: every kind of product, wherever its operands lie, against NumPy and a brute force of the rule of sums."""

from __future__ import annotations

import numpy as np
import pytest
from oracles_arith import BF16, E4M3, E5M2, F16, F32, TF32
from oracles_tensor import block

from gpusim.isa.binary.decode import parse_instruction
from gpusim.isa.table import supported

wgmma_harness = pytest.importorskip("wgmma_harness", reason="needs the CUDA wheels")
Matrix, Product = wgmma_harness.Matrix, wgmma_harness.Product

ROWS = 64
FORMATS = {"f16": (F16, 16), "bf16": (BF16, 16), "tf32": (TF32, 32), "e4m3": (E4M3, 8), "e5m2": (E5M2, 8)}
DEPTH_BITS = 256


def encoded(values: np.ndarray, name: str) -> np.ndarray:
    """Codes of whole numbers that the format holds."""
    if name in ("s8", "u8"):
        return values.astype(np.int64).astype(np.uint64) & np.uint64(0xFF)
    if name == "b1":
        return values.astype(np.uint64)
    single = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    if name in ("tf32", "f32"):
        return single
    if name == "bf16":
        return single >> np.uint64(16)
    half = values.astype(np.float16).view(np.uint16).astype(np.uint64)
    if name == "e5m2":
        return half >> np.uint64(8)
    if name == "e4m3":  # of numbers below 8 that four bits hold: the same but for the bias
        return (half >> np.uint64(7) & np.uint64(0xFF)) - np.where(values != 0, 64, 0).astype(np.uint64) | (
            half >> np.uint64(8) & np.uint64(0x80)
        )
    return half


def decoded(codes: np.ndarray, name: str) -> np.ndarray:
    if name == "s32":
        return codes.astype(np.uint32).view(np.int32).astype(np.int64)
    if name == "f16":
        return codes.astype(np.uint16).view(np.float16).astype(np.float64)
    return codes.astype(np.uint32).view(np.float32).astype(np.float64)


def chosen_columns(rng, depth: int, bits: int) -> np.ndarray:
    """int[64, depth / 2] columns of a sparse A: two of each four, of 32 bits one of each two."""
    if bits == 32:
        return 2 * np.arange(depth // 2) + rng.integers(0, 2, (ROWS, depth // 2))
    pairs = np.array([(i, j) for i in range(4) for j in range(i + 1, 4)])
    picked = pairs[rng.integers(0, len(pairs), (ROWS, depth // 4))]
    return (picked + 4 * np.arange(depth // 4)[None, :, None]).reshape(ROWS, depth // 2)


def metadata_words(columns: np.ndarray, bits: int, selector: int) -> np.ndarray:
    """uint64[128]: what each thread says of A's columns (PTX ISA, "Sparse matrix storage" of wgmma)."""
    if bits == 32:  # of two elements the first is columns 0 and 1 of four halves, the second 2 and 3
        high = columns % 2
        codes = np.stack([2 * high, 2 * high + 1], axis=2).reshape(ROWS, -1)
    else:
        codes = columns % 4
    words = np.zeros(128, np.uint64)
    for row in range(ROWS):
        warp, inside = divmod(row, 16)
        for i, code in enumerate(codes[row].tolist()):
            if bits >= 16:  # a thread of the selected pair: 8 indices of row g, then 8 of row g + 8
                thread = 32 * warp + 4 * (inside % 8) + 2 * selector + i // 8
                shift = 16 * (inside // 8) + 2 * (i % 8)
            else:  # 16 indices of one row a thread: the second thread has row g + 8, the third the rest of row g
                thread = 32 * warp + 4 * (inside % 8) + inside // 8 + 2 * (i // 16)
                shift = 2 * (i % 16)
            words[thread] |= np.uint64(code << shift)
    return words


def whole_product(rng, result: str, kinds: tuple[str, str], columns: int, **how) -> tuple[Product, np.ndarray]:
    """A product of small whole numbers and what it gives."""
    bits = 1 if kinds[0] == "b1" else 8 if kinds[0] in ("s8", "u8") else FORMATS[kinds[0]][1]
    sparse, registers = how.get("sparse", False), how.get("registers", False)
    depth = DEPTH_BITS // bits << sparse
    low = [0 if name in ("u8", "b1") else -3 for name in kinds]
    high = [2 if name == "b1" else 4 for name in kinds]
    a = rng.integers(low[0], high[0], (ROWS, depth >> sparse))
    b = rng.integers(low[1], high[1], (columns, depth))
    c = rng.integers(-9, 10, (ROWS, columns))
    whole = a
    metadata = None
    selector = how.get("selector", 0)
    if sparse:
        picked = chosen_columns(rng, depth, bits)
        whole = np.zeros((ROWS, depth), np.int64)
        np.put_along_axis(whole, picked, a, axis=1)
        metadata = metadata_words(picked, bits, selector)
    turned_a, turned_b = how.get("turned", (False, False))
    signs = how.get("signs", (1, 1))
    floating = result != "s32"
    options = () if not floating else tuple(signs)
    if bits == 16:
        options += (int(turned_b),) if registers else (int(turned_a), int(turned_b))
    expected = signs[0] * signs[1] * (whole @ b.T) + (c if how.get("scale_d", 1) else 0)
    swizzle_a, swizzle_b = how.get("swizzles", ("128B", "128B"))
    c_codes = encoded(c, result) if floating else c.astype(np.int32).view(np.uint32).astype(np.uint64)
    product = Product(
        f"{result}.{kinds[0]}.{kinds[1]}", columns, depth,
        Matrix(encoded(a, kinds[0]), bits, swizzle_a, turned_a, registers),
        Matrix(encoded(b, kinds[1]), bits, swizzle_b, turned_b),
        c_codes, 16 if result == "f16" else 32, options, how.get("scale_d", 1), metadata, selector,
        ".and.popc" if bits == 1 else ".satfinite" if how.get("saturates") else "",
    )  # fmt: skip
    return product, expected


def check(monkeypatch, cases) -> None:
    results = wgmma_harness.run(monkeypatch, [product for product, _ in cases])
    for (product, expected), codes in zip(cases, results, strict=True):
        got = decoded(codes, product.kinds.split(".")[0])
        assert (got == expected).all(), (
            product.kinds,
            product.columns,
            product.a.swizzle,
            product.a.turned,
            product.options,
        )


def test_halves_lie_as_the_descriptor_says(monkeypatch):
    """All swizzles, both majors, signs, with and without accumulators; columns beyond a strip of 64."""
    rng = np.random.default_rng(1)
    cases = [
        whole_product(rng, "f32", ("f16", "f16"), columns, swizzles=(swizzle_a, swizzle_b), turned=turned)
        for columns, swizzle_a, swizzle_b, turned in [
            (8, "none", "none", (False, False)), (24, "none", "none", (True, True)), (72, "32B", "64B", (False, True)),
            (16, "64B", "32B", (True, False)), (64, "64B", "128B", (True, True)), (128, "128B", "none", (False, False)),
            (40, "128B", "128B", (True, True)), (8, "32B", "32B", (True, False)),
        ]
    ]  # fmt: skip
    cases += [
        whole_product(rng, "f32", ("f16", "f16"), 16, signs=(-1, 1), scale_d=0),
        whole_product(rng, "f32", ("bf16", "bf16"), 32, signs=(1, -1), registers=True, turned=(False, True)),
        whole_product(rng, "f16", ("f16", "f16"), 24, signs=(-1, -1)),
        whole_product(rng, "f16", ("f16", "f16"), 8, registers=True, signs=(-1, 1), scale_d=0),
    ]
    check(monkeypatch, cases)


def test_other_formats(monkeypatch):
    rng = np.random.default_rng(2)
    check(
        monkeypatch,
        [
            whole_product(rng, "f32", ("tf32", "tf32"), 16, signs=(-1, 1)),
            whole_product(rng, "f32", ("tf32", "tf32"), 8, registers=True, swizzles=("none", "64B")),
            whole_product(rng, "f32", ("e4m3", "e5m2"), 24, swizzles=("32B", "none")),
            whole_product(rng, "f32", ("e5m2", "e4m3"), 8, registers=True, signs=(1, -1)),
            whole_product(rng, "f16", ("e4m3", "e4m3"), 16, signs=(-1, -1)),
            whole_product(rng, "s32", ("s8", "u8"), 24, swizzles=("64B", "32B")),
            whole_product(rng, "s32", ("u8", "s8"), 8, registers=True, scale_d=0),
            whole_product(rng, "s32", ("b1", "b1"), 16),
            whole_product(rng, "s32", ("b1", "b1"), 8, registers=True, swizzles=("none", "none")),
        ],
    )


def test_sparse_products(monkeypatch):
    rng = np.random.default_rng(3)
    check(
        monkeypatch,
        [
            whole_product(rng, "f32", ("f16", "f16"), 24, sparse=True),
            whole_product(rng, "f32", ("bf16", "bf16"), 8, sparse=True, selector=1, registers=True, turned=(False, True)),
            whole_product(rng, "f32", ("e4m3", "e4m3"), 136, sparse=True),  # columns beyond two strips of 64
            whole_product(rng, "f16", ("f16", "f16"), 8, sparse=True, selector=1, turned=(True, True), swizzles=("64B", "none")),
            whole_product(rng, "f32", ("tf32", "tf32"), 8, sparse=True, selector=1),
            whole_product(rng, "f32", ("tf32", "tf32"), 16, sparse=True, registers=True),
            whole_product(rng, "f32", ("e4m3", "e5m2"), 8, sparse=True, swizzles=("32B", "64B")),
            whole_product(rng, "f16", ("e5m2", "e5m2"), 8, sparse=True, registers=True),
            whole_product(rng, "s32", ("s8", "s8"), 16, sparse=True),
            whole_product(rng, "s32", ("u8", "s8"), 8, sparse=True, registers=True, swizzles=("none", "32B")),
        ],
    )  # fmt: skip


def test_integers_saturate_or_wrap(monkeypatch):
    rng = np.random.default_rng(4)
    cases = []
    for saturates in (False, True):
        product, expected = whole_product(rng, "s32", ("s8", "s8"), 8, saturates=saturates)
        c = np.where(rng.integers(0, 2, (ROWS, 8)), 2**31 - 1, -(2**31))
        expected = c + (expected - decoded(product.c, "s32"))
        expected = np.clip(expected, -(2**31), 2**31 - 1) if saturates else expected.astype(np.int32).astype(np.int64)
        assert (expected != c + 0).any()
        product.c[:] = c.astype(np.int32).view(np.uint32)
        cases.append((product, expected))
    check(monkeypatch, cases)


FORMS = {
    "HGMMA.64x8x16.F32.BF16 R24, gdesc[UR4].negA.tnspB, R24, UP0, gsb0": True,
    "HGMMA.64x256x8.F32.TF32 R24, -R4, gdesc[UR4].negB, RZ, !UPT": True,
    "HGMMA.SP.64x16x32.F16 R24, gdesc[UR4].tnspA, R24, R28, 0x1, gsb0": True,
    "QGMMA.64x24x32.F16.E5M2.E4M3 R24, gdesc[UR4], R24": True,
    "IGMMA.SP.64x8x64.U8.S8.SAT R24, R28, gdesc[UR4], R24, R32": True,
    "BGMMA.64x8x256.AND.POPC R24, gdesc[UR4], R24, !UP1, gsb0": True,
    "HGMMA.64x12x16.F32 R24, gdesc[UR4], R24": False,  # columns
    "HGMMA.64x264x16.F32 R24, gdesc[UR4], R24": False,
    "HGMMA.64x64x32.F32 R24, gdesc[UR4], R24": False,  # depth of a sparse one
    "HGMMA.64x64x16.F16.BF16 R24, gdesc[UR4], R24": False,
    "HGMMA.64x64x16.F32 R24, R4, gdesc[UR4].tnspA, R24": False,  # of A in registers
    "HGMMA.64x64x16.F32 R24, gdesc[UR4].swapA, R24": False,
    "HGMMA.64x64x16.F32 R24, gdesc[UR4], R28": False,  # accumulators elsewhere
    "HGMMA.64x64x16.F32 R24, gdesc[UR4], RZ, UP0": False,
    "QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR4].tnspB, R24": False,
    "IGMMA.64x64x32.S8.S4 R24, gdesc[UR4], R24": False,
    "IGMMA.64x64x32.S8.S8 R24, gdesc[UR4].negA, R24": False,
    "BGMMA.64x64x256.XOR.POPC R24, gdesc[UR4], R24": False,
    "HGMMA.SP.64x64x32.F32 R24, gdesc[UR4], R24, R28, 0x2": False,  # selector
    "WARPGROUP.ARRIVE": True,
    "WARPGROUP.DEPBAR.LE gsb0, 0x3": True,
    "WARPGROUP.DEPBAR.LE gsb1, 0x0": False,
    "WARPGROUP.DEPART": False,
}


@pytest.mark.parametrize("text", FORMS)
def test_forms_are_known_or_refused(text):
    opcode, _, operands = text.partition(" ")
    instruction = parse_instruction(0, "", opcode, operands.replace(", ", ","), 0)
    assert supported(instruction) == FORMS[text]


def random_codes(rng, name: str, shape: tuple[int, int], spread: str) -> np.ndarray:
    """Codes of a format: any at all, or numbers whose exponents lie ``near`` each other, or ``low``, close to the
    least."""
    form, bits = FORMATS[name]
    if spread == "any":
        codes = rng.integers(0, 1 << (19 if name == "tf32" else bits), shape)
    else:
        exponent_bits = {"f16": 5, "bf16": 8, "tf32": 8, "e4m3": 4, "e5m2": 5}[name]
        most, middle = (1 << exponent_bits) - 1, form.bias
        if spread == "near":
            exponents = np.clip(middle + rng.integers(-7, 8, shape), 0, most - 1)
        elif spread == "low":
            exponents = rng.integers(0, 4, shape)
        else:
            exponents = rng.integers(middle // 2, most, shape)
        codes = rng.integers(0, 2, shape) << form.mantissa_bits + exponent_bits
        codes |= exponents << form.mantissa_bits | rng.integers(0, 1 << form.mantissa_bits, shape)
    return (codes << 13 if name == "tf32" else codes).astype(np.uint64)


def brute_force(product: Product, row: int, column: int) -> int:
    """One element of D by the rule: exact fractions, cut to 25 bits (of FP8: 13, and 13 in the result)."""
    result, a_name, b_name = product.kinds.split(".")
    (f_a, _), (f_b, _) = FORMATS[a_name], FORMATS[b_name]
    a, b = product.a.codes[row].tolist(), product.b.codes[column].tolist()
    if a_name == "tf32":
        a, b = [x >> 13 for x in a], [y >> 13 for y in b]
    narrow = a_name.startswith("e")
    acc = F16 if result == "f16" else F32
    return block(f_a, f_b, acc, a, b, int(product.c[row, column]), 13 if narrow else 25, 13 if narrow else 23)


def float_product(rng, result: str, names: tuple[str, str], columns: int, spread: str, c_spread: str) -> Product:
    bits = FORMATS[names[0]][1]
    depth = DEPTH_BITS // bits
    half = result == "f16"
    if c_spread == "any":
        c = rng.integers(0, 1 << (16 if half else 32), (ROWS, columns)).astype(np.uint64)
    elif c_spread == "zero":
        c = np.zeros((ROWS, columns), np.uint64)
    else:
        values = rng.normal(size=(ROWS, columns)) * 2.0 ** rng.integers(-12, 12, (ROWS, columns))
        c = values.astype(np.float16 if half else np.float32).view(np.uint16 if half else np.uint32).astype(np.uint64)
    options = (1, 1, 0, 0) if bits == 16 else (1, 1)
    return Product(
        f"{result}.{names[0]}.{names[1]}", columns, depth, Matrix(random_codes(rng, names[0], (ROWS, depth), spread), bits),
        Matrix(random_codes(rng, names[1], (columns, depth), spread), bits), c, 16 if half else 32, options,
    )  # fmt: skip


SUMS = [
    (result, names, spread, c_spread)
    for result, names in [
        ("f32", ("f16", "f16")), ("f32", ("bf16", "bf16")), ("f32", ("tf32", "tf32")), ("f16", ("f16", "f16")),
        ("f32", ("e4m3", "e5m2")), ("f16", ("e5m2", "e4m3")),
    ]
    for spread, c_spread in [("near", "near"), ("any", "any"), ("low", "zero"), ("high", "near"), ("low", "any")]
]  # fmt: skip


def check_sums(monkeypatch, rng, products: list[Product], samples: int) -> None:
    for product, codes in zip(products, wgmma_harness.run(monkeypatch, products), strict=True):
        rows, columns = rng.integers(0, ROWS, samples), rng.integers(0, product.columns, samples)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            expected = brute_force(product, row, column)
            assert int(codes[row, column]) == expected, (
                product.kinds,
                row,
                column,
                hex(int(codes[row, column])),
                hex(expected),
            )


def test_sums_are_cut_as_the_rule_says(monkeypatch):
    rng = np.random.default_rng(5)
    products = [float_product(rng, result, names, 16, spread, c) for result, names, spread, c in SUMS]
    check_sums(monkeypatch, rng, products, 12)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(8))
def test_more_sums(monkeypatch, seed):
    rng = np.random.default_rng([6, seed])
    products = [
        float_product(rng, result, names, 8 * rng.integers(1, 10), spread, c) for result, names, spread, c in SUMS
    ]
    check_sums(monkeypatch, rng, products, 300)


@pytest.mark.nightly
@pytest.mark.parametrize("result, kinds", [("f32", ("f16", "f16")), ("f32", ("e4m3", "e4m3")), ("s32", ("s8", "s8"))])
def test_all_widths(monkeypatch, result, kinds):
    rng = np.random.default_rng(7)
    step = 8 if result == "f32" else 32
    for columns in range(step, 257, step):
        check(monkeypatch, [whole_product(rng, result, kinds, columns)])
