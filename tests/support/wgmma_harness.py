"""Run warp groups' products (PTX ``wgmma``) on the emulator: matrices of codes in, D's codes out.

Mental model: a kernel of 128 threads copies an image of shared memory from its input, multiplies, and stores its
accumulators. Where elements lie in that image, and in which registers, follows here from CuTe's layouts as functions of
coordinates (shapes and strides, exclusive or of address bits), not from the code under test. Imports nothing of gpusim
but the way to run a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import ptx_harness

THREADS, ROWS = 128, 64
SWIZZLES = {"none": (0, 0), "128B": (3, 1), "64B": (2, 2), "32B": (1, 3)}  # (bits, code of the descriptor)


@dataclass(frozen=True)
class Matrix:
    """``codes`` uint64[lines, depth] and how they lie in shared memory: ``turned`` (lines side by side), ``swizzle``;
    or ``in_registers``."""

    codes: np.ndarray
    bits: int
    swizzle: str = "128B"
    turned: bool = False
    in_registers: bool = False


@dataclass(frozen=True)
class Product:
    """``wgmma`` of ``kinds`` (``f32.f16.f16``): D = A x B + C, C uint64[64, columns] codes of ``c_bits``."""

    kinds: str
    columns: int
    depth: int
    a: Matrix
    b: Matrix
    c: np.ndarray
    c_bits: int = 32
    options: tuple[int, ...] = ()
    scale_d: int = 1
    metadata: np.ndarray | None = None  # uint64[128]
    selector: int = 0
    suffix: str = ""
    extra: dict = field(default_factory=dict)


def placed(matrix: Matrix) -> tuple[np.ndarray, int]:
    """(the matrix's bytes in a repeating pattern from address 0 on, its descriptor less the start address)."""
    lines, depth = matrix.codes.shape
    if matrix.bits == 1:  # 32 at a time
        words = matrix.codes.reshape(lines, depth // 32, 32) << np.arange(32, dtype=np.uint64)
        return placed(Matrix(words.sum(axis=2, dtype=np.uint64), 32, matrix.swizzle))
    size, (bits, code) = matrix.bits // 8, SWIZZLES[matrix.swizzle]
    per_chunk, width = 16 // size, 1 << bits
    line, k = np.meshgrid(np.arange(lines), np.arange(depth), indexing="ij")
    if matrix.turned:
        chunk, inside, deep = line // per_chunk, line % per_chunk, k
        if bits:
            # ((W, n), (8, k)) : ((1, LBO), (W, SBO)), in units of 16 bytes
            stride = 8 * width
            leading = stride * (depth // 8)
            units = chunk % width + chunk // width * leading + deep % 8 * width + deep // 8 * stride
        else:
            # ((1, n), (8, k)) : ((X, SBO), (1, LBO))
            leading = 8
            stride = leading * (depth // 8)
            units = chunk * stride + deep % 8 + deep // 8 * leading
    else:
        chunk, inside = k // per_chunk, k % per_chunk
        if bits:
            # ((8, n), 2) : ((W, SBO), 1); where a row is longer than the pattern it goes on LBO behind
            stride = 8 * width
            leading = stride * (lines // 8)
            units = line % 8 * width + line // 8 * stride + chunk % width + chunk // width * leading
        else:
            # ((8, n), 2) : ((1, SBO), LBO)
            leading = 8 * (lines // 8)
            stride = 8
            units = line % 8 + line // 8 * stride + chunk * leading
    units ^= units >> 3 & width - 1  # Swizzle<bits, 4, 3> on bytes
    places = units * 16 + inside * size
    image = np.zeros(-(-(int(places.max()) + size) // 1024) * 1024, np.uint8)
    for byte in range(size):
        image[places + byte] = matrix.codes >> np.uint64(8 * byte) & np.uint64(0xFF)
    return image, leading << 16 | stride << 32 | code << 62


def fragment(matrix: Matrix) -> np.ndarray:
    """uint64[4, 128] registers of A."""
    codes, bits = matrix.codes, matrix.bits
    if bits == 1:
        return fragment(
            Matrix((codes.reshape(ROWS, 8, 32) << np.arange(32, dtype=np.uint64)).sum(axis=2, dtype=np.uint64), 32)
        )
    elements, registers = 32 // bits, np.zeros((4, THREADS), np.uint64)
    for thread in range(THREADS):
        warp, g, t = thread // 32, thread % 32 // 4, thread % 4
        for r in range(4):
            row, first = 16 * warp + g + 8 * (r % 2), 4 * elements * (r // 2) + elements * t
            for e in range(elements):
                registers[r, thread] |= codes[row, first + e] << np.uint64(bits * e)
    return registers


def accumulator_places(columns: int, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns), each int[registers, elements a register, 128], of the elements of D."""
    elements = 32 // bits
    registers = ROWS * columns // THREADS // elements
    r, e, thread = np.meshgrid(np.arange(registers), np.arange(elements), np.arange(THREADS), indexing="ij")
    i = r * elements + e  # number of the element in the fragment: d0, d1, ...
    rows = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
    return rows, 8 * (i // 4) + 2 * (thread % 4) + i % 2


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    rows, columns = accumulator_places(codes.shape[1], bits)
    shifts = np.arange(32 // bits, dtype=np.uint64)[None, :, None] * np.uint64(bits)
    return (codes[rows, columns] << shifts).sum(axis=1, dtype=np.uint64)


def unpack(registers: np.ndarray, columns: int, bits: int) -> np.ndarray:
    rows, places = accumulator_places(columns, bits)
    codes = np.zeros((ROWS, columns), np.uint64)
    shifts = np.arange(32 // bits, dtype=np.uint64)[None, :, None] * np.uint64(bits)
    codes[rows, places] = registers[:, None, :] >> shifts & np.uint64((1 << bits) - 1)
    return codes


def _text(product: Product, number: int, input_row: int, output_row: int) -> tuple[str, list[np.ndarray], int]:
    """(PTX, rows of input, registers of output) of one product."""
    rows: list[np.ndarray] = []
    lines = ["{", "bar.sync 0;"]
    step = 8 * THREADS

    def read(kind: str, name: str, row: np.ndarray) -> None:
        lines.append(f".reg .{kind} %{name}; ld.global.{kind} %{name}, [%in+{step * (input_row + len(rows))}];")
        rows.append(row)

    place = 0
    descriptors = {}
    for name, matrix in (("a", product.a), ("b", product.b)):
        if matrix.in_registers:
            continue
        image, descriptor = placed(matrix)
        for start in range(0, len(image), step):
            read("b64", f"s{name}{start}", image[start : start + step].view(np.uint64))
            lines.append(f"st.shared.b64 [%there+{place + start}], %s{name}{start};")
        descriptors[name] = np.full(THREADS, descriptor + (place >> 4), np.uint64)
        place += len(image)
    for name, row in descriptors.items():
        read("b64", f"d{name}", row)
        lines.append(f"add.u64 %d{name}, %d{name}, %start;")
    c = pack(product.c, product.c_bits)
    kind = "f32" if product.c_bits == 32 and product.kinds.startswith("f32") else "b32"
    names = []
    for i, row in enumerate(c):
        read(kind, f"c{i}", row)
        names.append(f"%c{i}")
    operands = ["{" + ",".join(names) + "}"]
    if product.a.in_registers:
        for i, row in enumerate(fragment(product.a)):
            read("b32", f"a{i}", row)
        operands.append("{%a0,%a1,%a2,%a3}")
    else:
        operands.append("%da")
    operands.append("%db")
    if product.metadata is not None:
        read("b32", "meta", product.metadata)
        operands += ["%meta", str(product.selector)]
    read("b32", "scale", np.full(THREADS, product.scale_d, np.uint64))
    lines.append(".reg .pred %counts; setp.ne.b32 %counts, %scale, 0;")
    operands += ["%counts", *(str(option) for option in product.options)]
    sparse = ".sp" if product.metadata is not None else ""
    lines += [
        "fence.proxy.async.shared::cta;", "bar.sync 0;", "wgmma.fence.sync.aligned;",
        f"wgmma.mma_async{sparse}.sync.aligned.m64n{product.columns}k{product.depth}.{product.kinds}{product.suffix} "
        f"{', '.join(operands)};",
        "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;",
    ]  # fmt: skip
    lines += [f"st.global.{kind} [%out+{step * (output_row + i)}], %c{i};" for i in range(len(c))]
    return "\n".join([*lines, "}"]), rows, len(c)


def run(monkeypatch, products: list[Product]) -> list[np.ndarray]:
    """D's codes, uint64[64, columns] each, of products executed one after another by one warp group."""
    inputs: list[np.ndarray] = []
    texts, places, written = [], [], 0
    for number, product in enumerate(products):
        text, rows, registers = _text(product, number, len(inputs), written)
        inputs += rows
        texts.append(text)
        places.append((written, registers))
        written += registers
    head = ptx_harness.grouped_text([], "sm_90a").removesuffix("ret; }").rstrip()
    body = [
        head, ".shared .align 1024 .b8 tiles[49152];", ".reg .b32 %there, %low; .reg .b64 %start;",
        "mov.u32 %low, tiles; shl.b32 %there, %thread, 3; add.u32 %there, %there, %low;",
        "shr.b32 %low, %low, 4; cvt.u64.u32 %start, %low;", *texts, "ret; }",
    ]  # fmt: skip
    out = ptx_harness.run_text(monkeypatch, "\n".join(body), written, np.array(inputs), (9, 0))
    return [
        unpack(out[first : first + count] & np.uint64(0xFFFFFFFF), product.columns, product.c_bits)
        for product, (first, count) in zip(products, places, strict=True)
    ]
