"""What a GPU has to get right before its speed is of interest: each check compares with the processor.

``python -m benchmarks.gpu --parts checks`` runs each in a process of its own.  On the library that stands in for a
driver nothing is computed, so that only the calls themselves are tried.
"""
from __future__ import annotations

import collections
import time
import warnings

import numpy as np


SECONDS = 240  # for the operators' samples


def close(found, wanted, tolerance, dry: bool):
    """AssertionError where results differ by more than a part of the largest."""
    for one, other in zip(found, wanted):
        one, other = one.detach().float().cpu().numpy(), other.detach().float().cpu().numpy()
        assert one.shape == other.shape, (one.shape, other.shape)
        far = np.abs(one - other).max(initial=0) / max(np.abs(other).max(initial=0), 1e-6)
        assert dry or far <= tolerance, f"differs by {far:.2e} of the largest, at most {tolerance:.0e} is fine"


def both(rl, dry, tolerance, f, *operands):
    close(f(*(x.to("cuda") for x in operands)), f(*operands), tolerance, dry)


def copies(rl, dry):
    for dtype in (rl.float32, rl.float16, rl.bfloat16, rl.int64, rl.uint8, rl.bool, rl.float64):
        x = rl.arange(4099, device="cpu").to(dtype)
        both(rl, dry, 0.0, lambda x: (x, x[5:].clone(), x.reshape(-1, 1).t()), x)
    host = rl.empty(1 << 16, device="cpu").pin_memory()
    host.copy_(rl.full((1 << 16,), 3.0, device="cuda"), non_blocking=True)
    rl.cuda.synchronize()
    assert dry or host.eq(3).all().item()


def kernels(rl, dry):
    F, x = rl.nn.functional, rl.randn(257, 1003, device="cpu")
    both(rl, dry, 1e-5, lambda x: (F.gelu(x), F.softmax(x, 1), F.layer_norm(x, (1003,)), x.sum(0), x.amax(1), x.exp(),
                                   x.cumsum(1), x.sort(1).values, x.var(1), x[:, ::3] + 1, x.t().contiguous()), x)
    index = rl.randint(0, 257, (999,), device="cpu")
    both(rl, dry, 1e-5, lambda x, i: (x[i], x.index_add(0, i, x[i]), F.one_hot(i, 257).float()), x, index)


def products(rl, dry):
    for dtype, tolerance in ((rl.float32, 1e-5), (rl.float64, 1e-10), (rl.float16, 2e-3), (rl.bfloat16, 2e-2)):
        for rows, depth, columns in ((5, 7, 9), (300, 513, 129), (1, 4096, 64), (64, 8192, 64)):
            a, b = (rl.randn(*shape, device="cpu").to(dtype) for shape in ((rows, depth), (depth, columns)))
            both(rl, dry, tolerance, lambda a, b: (a @ b, (a @ b).relu() + 1), a, b)


def scaled_bytes(rl, dry):
    for left, right in (("e4m3fn", "e4m3fn"), ("e4m3fn", "e5m2")):
        a, b = (rl.randn(129, 256, device="cpu").to(getattr(rl, f"float8_{name}")) for name in (left, right))
        scales = rl.rand(129, 1, device="cpu"), rl.rand(1, 129, device="cpu")
        both(rl, dry, 1e-3, lambda a, b, s, t: (rl._scaled_mm(a, b.t(), s, t, out_dtype=rl.float32),), a, b, *scales)


def convolutions(rl, dry):
    F = rl.nn.functional
    x, w = rl.randn(3, 8, 19, 17, device="cpu"), rl.randn(12, 8, 3, 3, device="cpu")

    def run(x, w):
        x, w = (one.detach().requires_grad_() for one in (x, w))
        y = F.conv2d(x, w, stride=2, padding=1)
        y.square().sum().backward()
        return y, x.grad, w.grad

    with rl.backends.cudnn.flags(allow_tf32=False):
        both(rl, dry, 1e-4, run, x, w)


def attention(rl, dry):
    F = rl.nn.functional
    for dtype, tolerance in ((rl.float32, 1e-4), (rl.bfloat16, 3e-2)):
        for size, length, causal in ((64, 130, True), (128, 257, False), (80, 64, True), (256, 70, True)):
            q, k, v = (rl.randn(2, 3, length, size, device="cpu").to(dtype) for _ in range(3))

            def run(q, k, v):
                given = [x.detach().requires_grad_() for x in (q, k, v)]
                y = F.scaled_dot_product_attention(*given, is_causal=causal)
                y.float().square().sum().backward()
                return y, *(x.grad for x in given)

            both(rl, dry, tolerance, run, q, k, v)


def libraries(rl, dry):
    """Matmuls, also of int8, convolutions and attention by the vendor's libraries wherever they can do them; NaN passes
    their ReLU."""
    from rushlight._src.core.settings import settings

    F = rl.nn.functional
    with settings.set(vendor="always"):
        for check in (products, scaled_bytes, convolutions, attention):
            check(rl, dry)
        x, w, b = (rl.randn(*shape, device="cpu") for shape in ((64, 64), (64, 64), (64,)))
        for f in (lambda x, w, b: F.linear(x, w, b).relu(), lambda x, w, b: F.linear(x, w, b) + x,
                  lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"),
                  lambda x, w, b: F.gelu(F.linear(x, w, b))):
            with rl.no_grad():
                both(rl, dry, 1e-4, lambda *given: (rl.compile(f)(*given),), x, w, b)
        x[3, 5] = float("nan")
        with rl.no_grad():
            found = rl.compile(lambda x, w, b: F.linear(x, w, b).relu())(*(one.to("cuda") for one in (x, w, b)))
        assert dry or int(found.isnan().sum()) == 64


def random_numbers(rl, dry):
    for make in (rl.rand, rl.randn):
        found = []
        for where in ("cpu", "cuda"):
            rl.manual_seed(5)
            found.append(make(1000, device=where))
        close(found[1:], found[:1], 1e-5, dry)


def graphs(rl, dry):
    x = rl.arange(1000.0, device="cuda")
    (x + 1).relu()
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        y = (x + 1).relu() * 2
    for value in (3.0, -5.0):
        x.fill_(value)
        graph.replay()
        assert dry or y.eq(max(value + 1, 0) * 2).all().item(), value
    f = rl.compile(lambda x: (x @ x).softmax(1), mode="reduce-overhead")
    z = rl.randn(64, 64, device="cpu")
    for _ in range(5):
        close([f(z.to("cuda"))], [(z @ z).softmax(1)], 1e-4, dry)


def streams(rl, dry):
    side, x = rl.cuda.Stream(), rl.ones(1 << 20, device="cuda")
    for k in range(20):
        y = x * k
        side.wait_stream(rl.cuda.current_stream())
        with rl.cuda.stream(side):
            z = y + 1
            y.record_stream(side)
        del y
        w = rl.zeros(1 << 20, device="cuda")  # must not get y's memory while it is read
        rl.cuda.current_stream().wait_stream(side)
        assert dry or z[::4099].eq(k + 1).all().item() and w.sum().item() == 0, k


def errors(rl, dry):
    from rushlight import OutOfMemoryError
    try:
        rl.empty(1 << 46, device="cuda")
    except OutOfMemoryError:
        pass
    else:
        assert dry, "memory of 64 TiB was given"
    x = rl.arange(3.0, device="cuda")
    wrong = x[rl.tensor([5], device="cuda")]
    try:
        wrong.cpu()
    except IndexError:
        pass
    else:
        assert dry, "an index out of range was not seen"
    assert dry or (x + 1).tolist() == [1, 2, 3]


def training(rl, dry):
    from tests.webgpu.test_training import Letters, images, losses
    for make in (Letters, images):
        wanted = losses(make, "cpu", False, 5)
        for compiled in (False, True):
            found = losses(make, "cuda", compiled, 5)
            assert dry or np.allclose(found, wanted, rtol=1e-3), (found, wanted)


def operators(rl, dry):
    """The operators' own samples, without gradients: the first of each, then the second and the third, as far as there
    is time, since a GPU compiles kernels for most of them."""
    from rushlight._src.core.op import OPS
    from tests.gpu.compiled import arguments, build, flat, single
    from tests.ops.test_samples import SAMPLED
    warnings.simplefilter("ignore")
    wrong, count, rows, seen = [], 0, [], collections.Counter()
    for name, index in SAMPLED:
        seen[name] += 1
        if seen[name] <= 3 and "random" not in OPS[name].traits:
            rows.append((seen[name], name, index))
    rows.sort(key=lambda row: row[0])
    until = time.monotonic() + (60 if dry else SECONDS)
    for done, (_, name, index) in enumerate(rows):
        if time.monotonic() > until:
            break
        sample = OPS[name].traits["samples"][index]
        try:
            found = [flat([OPS[name](*(build(rl, v, lambda a: single(a).to(where)) for v in arguments(name, sample)),
                                     **sample.kwargs)]) for where in ("cuda", "cpu")]
            close(*found, 1e-3, dry)
            count += 1
        except Exception as reason:  # noqa: BLE001 - the line names it
            wrong.append(f"{name}: {type(reason).__name__}: {' '.join(str(reason).split())[:80]}")
    else:
        done = len(rows)
    assert not wrong or dry, f"{count} agree; {len(wrong)} do not: {'; '.join(wrong)[:1500]}"
    return {"agree": count, "raise": len(wrong), "not reached": len(rows) - done}


CHECKS = {f.__name__.replace("_", " "): f for f in (
    copies, kernels, products, scaled_bytes, convolutions, attention, libraries, random_numbers, graphs, streams,
    errors,
    training, operators)}
