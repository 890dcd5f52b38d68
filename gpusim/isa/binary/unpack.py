"""Compressed images of fat binaries, unpacked by the libraries of the two formats.

Mental model: LZ4 blocks up to CUDA 12, Zstandard frames since; both say nothing that can be trusted of what they
become, so no more is made than the header around them claims, and less is refused.
"""

from __future__ import annotations

try:
    import lz4.block as lz4_block
except ImportError:
    lz4_block = None
try:
    import zstandard
except ImportError:
    zstandard = None

from gpusim.errors import CompileError, ToolchainError

LZ4, ZSTD = "LZ4", "Zstandard"
#: No image is larger, whatever its header says.
MOST_UNPACKED_BYTES = 1 << 28
#: An LZ4 block becomes at most so many times as large: a byte of its longest match stands for 255.
_MOST_LZ4_RATIO = 255
#: What a frame may ask the decoder to keep, as the zstd command has it by default.
_MOST_WINDOW_BYTES = 1 << 27


def unpacked(data: memoryview, packing: str, size: int) -> bytes:
    """The ``size`` bytes that ``data`` packs. Raises CompileError where it does not become just these, ToolchainError
    where the library is not installed."""
    if size > MOST_UNPACKED_BYTES:
        raise CompileError(
            f"damaged fat binary: an image claims {size} bytes; at most {MOST_UNPACKED_BYTES} are unpacked"
        )
    try:
        content = _lz4(data, size) if packing == LZ4 else _zstd(data, size)
    except (ValueError, EOFError, MemoryError, OverflowError) as error:
        raise CompileError(f"damaged fat binary: {packing} data cannot be unpacked ({error})") from None
    if len(content) != size:
        raise CompileError(f"damaged fat binary: {packing} data is {len(content)} bytes unpacked, not {size}")
    return content


def _lz4(data: memoryview, size: int) -> bytes:
    if lz4_block is None:
        raise ToolchainError("this fat binary is compressed with LZ4: pip install lz4")
    if size > _MOST_LZ4_RATIO * len(data):
        raise ValueError(f"{len(data)} bytes cannot become {size}")
    try:
        return lz4_block.decompress(bytes(data), uncompressed_size=size) if size else b""
    except lz4_block.LZ4BlockError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _zstd(data: memoryview, size: int) -> bytes:
    if zstandard is None:
        raise ToolchainError("this fat binary is compressed with Zstandard: pip install zstandard")
    try:
        with zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW_BYTES).stream_reader(data) as reader:
            return reader.read(size + 1)
    except zstandard.ZstdError as error:
        raise ValueError(" ".join(str(error).split())) from None
