"""How far PyTorch's CUDA build goes on the emulated device: a table of operations, each of which works, is refused or
is wrong.

    pip install torch                                  # the build for CUDA, as PyPI has it for Linux
    gpusim run --gpu a100_80gb tools/try_torch.py      # all operations: about ten minutes the first time
    gpusim run tools/try_torch.py sort 'matmul*'       # those of these names

Mental model: an operation is a function of a device that gives tensors; what it gives on the CPU is its reference. The
table goes to stdout as CSV: name, outcome (works, refused, wrong), seconds, and of a refusal the sentence that gpusim
said. The exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import csv
import fnmatch
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpusim.driver.driver import installed_driver

Operation = Callable[[str], object]
ROWS, COLUMNS = 48, 96
#: Of float32; sums are taken in another order.
TOLERANCE = 1e-3
TRITON_PRODUCTS = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}


def drawn(*sizes: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal numbers, the same on every call."""
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def indices(most: int, count: int) -> torch.Tensor:
    """Whole numbers below ``most``, the same on every call."""
    return torch.randint(0, most, (count,), generator=torch.Generator().manual_seed(most))


A, B = drawn(ROWS, COLUMNS), drawn(ROWS, COLUMNS, seed=1)


def on_two_streams(device: str) -> torch.Tensor:
    """A product on a stream of its own, waited for by an event."""
    values = A.to(device)
    if device == "cpu":
        return values * 3
    stream, done = torch.cuda.Stream(), torch.cuda.Event()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        product = values * 3
        done.record()
    torch.cuda.current_stream().wait_event(done)
    return product.clone()


def captured(device: str) -> torch.Tensor:
    """Kernels of a CUDA graph, run again over another input."""
    values = torch.zeros(256, device=device)
    if device == "cpu":
        return torch.arange(256.0) * 2 + 1
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = values * 2 + 1
    values.copy_(torch.arange(256.0))
    graph.replay()
    return result


def trained(device: str, network: torch.nn.Module, values: torch.Tensor, compiled: bool = False) -> list[torch.Tensor]:
    """The parameters after a step of SGD."""
    network = network.to(device)
    call = torch.compile(network, options=TRITON_PRODUCTS) if compiled and device != "cpu" else network
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    call(values.to(device)).square().sum().backward()
    optimizer.step()
    return [parameter.detach() for parameter in network.parameters()]


def linear() -> torch.nn.Module:
    """The same weights on every call."""
    torch.manual_seed(0)
    return torch.nn.Linear(COLUMNS, 16)


def attention(backend: SDPBackend, dtype: torch.dtype) -> Operation:
    """Scaled dot-product attention by one of PyTorch's ways."""

    def run(device: str) -> torch.Tensor:
        query, key, value = (drawn(1, 2, 64, 64, seed=i, dtype=dtype).to(device) for i in range(3))
        with sdpa_kernel(SDPBackend.MATH if device == "cpu" else backend):
            return F.scaled_dot_product_attention(query, key, value, is_causal=True).float()

    return run


def without_cudnn(operation: Operation) -> Operation:
    """PyTorch's own kernels where it has some."""

    def run(device: str) -> object:
        with torch.backends.cudnn.flags(enabled=False):
            return operation(device)

    return run


def gradient(function: Callable[[torch.Tensor], torch.Tensor]) -> Operation:
    """What goes back through ``function``."""

    def run(device: str) -> torch.Tensor | None:
        values = A.clone().to(device).requires_grad_()
        function(values).sum().backward()
        return values.grad

    return run


def compiled(function: Callable[..., torch.Tensor], *arguments: torch.Tensor, **options: object) -> Operation:
    """By torch.compile, whose kernels are Triton's."""

    def run(device: str) -> torch.Tensor:
        call = function if device == "cpu" else torch.compile(function, options=options or None)
        return call(*(argument.to(device) for argument in arguments))

    return run


OPERATIONS: dict[str, Operation] = {
    "zeros": lambda d: torch.zeros(100, device=d),
    "ones": lambda d: torch.ones(100, device=d),
    "arange": lambda d: torch.arange(1000, device=d),
    "copy": lambda d: A.to(d).t().contiguous(),
    "copy_pinned": lambda d: (A if d == "cpu" else A.pin_memory()).to(d, non_blocking=True),
    "add": lambda d: A.to(d) + B.to(d),
    "mul_half": lambda d: A.half().to(d) * B.half().to(d),
    "exp": lambda d: A.to(d).exp(),
    "where": lambda d: torch.where(A.to(d) > 0, A.to(d), B.to(d)),
    "cat": lambda d: torch.cat([A.to(d), B.to(d)], 1),
    "sum": lambda d: A.to(d).sum(),
    "mean": lambda d: A.to(d).mean(0),
    "max": lambda d: list(A.to(d).max(1)),
    "any": lambda d: (A.to(d) > 3).any(),
    "softmax": lambda d: A.to(d).softmax(-1),
    "cross_entropy": lambda d: F.cross_entropy(A.to(d), indices(COLUMNS, ROWS).to(d)),
    "layer_norm": lambda d: F.layer_norm(A.to(d), (COLUMNS,)),
    "batch_norm": without_cudnn(
        lambda d: F.batch_norm(drawn(2, 4, 8, 8).to(d), None, None, training=True),
    ),
    "index_select": lambda d: A.to(d).index_select(0, indices(ROWS, 9).to(d)),
    "gather": lambda d: A.to(d).gather(1, indices(COLUMNS, ROWS).to(d)[:, None]),
    "index_add": lambda d: A.to(d).index_add(0, indices(ROWS, ROWS).to(d), B.to(d)),
    "masked_select": lambda d: A.to(d)[A.to(d) > 0],
    "nonzero": lambda d: (A.to(d) > 1).nonzero(),
    "sort": lambda d: A.to(d).sort(1).values,
    "sort_long": lambda d: drawn(5000).to(d).sort().values,
    "topk": lambda d: A.to(d).topk(5).values,
    "unique": lambda d: indices(20, 500).to(d).unique(),
    "cumsum": lambda d: A.to(d).cumsum(1),
    "bincount": lambda d: indices(20, 500).to(d).bincount(),
    "rand": lambda d: torch.rand(4000, device=d).mean() > 0.4,
    "dropout": lambda d: F.dropout(torch.ones(4000, device=d), 0.5).mean() > 0.9,
    "embedding": lambda d: F.embedding(indices(ROWS, 9).to(d), A.to(d)),
    "max_pool2d": lambda d: F.max_pool2d(drawn(1, 3, 16, 16).to(d), 2),
    "interpolate": lambda d: F.interpolate(drawn(1, 3, 8, 8).to(d), scale_factor=2, mode="bilinear"),
    "gelu_backward": gradient(F.gelu),
    "softmax_backward": gradient(lambda values: values.softmax(-1).square()),
    "streams": on_two_streams,
    "cuda_graph": captured,
    "attention_flash": attention(SDPBackend.FLASH_ATTENTION, torch.float16),
    "attention_efficient": attention(SDPBackend.EFFICIENT_ATTENTION, torch.float32),
    "conv2d_depthwise": without_cudnn(
        lambda d: F.conv2d(drawn(1, 4, 8, 8).to(d), drawn(4, 1, 3, 3, seed=1).to(d), groups=4)
    ),
    "compile": compiled(lambda a, b: (a * b + 1).relu().sum(1), A, B),
    "compile_softmax": compiled(lambda a: a.softmax(-1), A),
    "compile_matmul": compiled(lambda a, b: a @ b.t(), A, B, **TRITON_PRODUCTS),
    "compile_linear_sgd": lambda d: trained(d, linear(), A, compiled=True),
    "linear_sgd": lambda d: trained(d, linear(), A),
    "matmul": lambda d: A.to(d) @ B.to(d).t(),
    "conv2d": lambda d: F.conv2d(drawn(1, 4, 8, 8).to(d), drawn(8, 4, 3, 3, seed=1).to(d)),
    "fft": lambda d: torch.view_as_real(torch.fft.fft(A.to(d))),
    "inverse": lambda d: torch.linalg.inv(A[:8, :8].to(d)),
    "sparse_mm": lambda d: torch.sparse.mm(A.to_sparse_csr().to(d), B.t().contiguous().to(d)),
}


def difference(found: object, expected: object) -> str:
    """Empty where they are the same."""
    if isinstance(found, (list, tuple)) and isinstance(expected, (list, tuple)):
        return "; ".join(filter(None, map(difference, found, expected)))
    assert isinstance(found, torch.Tensor) and isinstance(expected, torch.Tensor)
    found = found.cpu()
    if found.shape != expected.shape:
        return f"{tuple(found.shape)} for {tuple(expected.shape)}"
    if torch.allclose(found.double(), expected.double(), rtol=TOLERANCE, atol=TOLERANCE):
        return ""
    return f"off by {(found.double() - expected.double()).abs().max().item():.3g}"


def tried(operation: Operation, known: dict[str, str]) -> tuple[str, str]:
    """Outcome, and what is to be said of it. ``known``: PyTorch's message of an earlier refusal -> what gpusim said; a
    library that was refused does not ask again."""
    expected = operation("cpu")
    driver = installed_driver()
    before = [] if driver is None else list(driver.details)
    try:
        wrong = difference(operation("cuda"), expected)
    except RuntimeError as error:  # what PyTorch has no kernel for, too
        said = [] if driver is None else [detail for detail in driver.details if detail not in before]
        sentence = said[-1] if said else known.get(str(error), str(error))
        known[str(error)] = sentence
        return "refused", " ".join(sentence.split())
    return ("wrong", wrong) if wrong else ("works", "")


def main(patterns: list[str]) -> int:
    """Try the operations whose names match; the exit code."""
    if torch.version.cuda is None:
        print(f"this is torch {torch.__version__}, a build without CUDA", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("torch finds no device: gpusim run tools/try_torch.py", file=sys.stderr)
        return 2
    chosen = {
        name: operation
        for name, operation in OPERATIONS.items()
        if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    }
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["operation", "outcome", "seconds", "sentence"])
    outcomes, known = [], {}
    for name, operation in chosen.items():
        started = time.perf_counter()
        outcome, sentence = tried(operation, known)
        outcomes.append(outcome)
        table.writerow([name, outcome, f"{time.perf_counter() - started:.1f}", sentence])
        sys.stdout.flush()
    return int("wrong" in outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
