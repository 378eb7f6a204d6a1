"""Matmuls by the stand-in for cuBLASLt: results are the CPU's, and calls what the library takes."""
import logging
import re
import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight._src.compiler.target import leaf
from rushlight._src.core import dtypes
from rushlight._src.core.encoding import decode, encode
from rushlight._src.core.expr import apply, convert
from rushlight._src.core.settings import settings
from rushlight._src.devices.triton.board import Board
from rushlight._src.devices.triton.provider import Queue
from rushlight._src.devices.triton.step import modules
from rushlight._src.devices.triton.vendor.blas import Matrix, Product, Unsupported
from rushlight._src.devices.triton.vendor.epilogues import Forms
from rushlight._src.switches import forget_plans

from . import stub_blas, vendors
from .recorded import provided
from .stub_blas import PRODUCTS, SEARCHES
from .vendors import with_products

F = rl.nn.functional


@pytest.fixture
def blas(by_the_interpreter, planned_anew, monkeypatch, tmp_path):
    """cuBLASLt, which computes all matmuls that it supports."""
    provider, library, found = with_products(monkeypatch, tmp_path)
    with settings.set(vendor="always", cache=str(tmp_path)):
        yield found
    assert library.failure is None, library.failure


def random(*shape, dtype=rl.float32):
    return rl.randn(*shape).to(dtype)


def compared(f, *operands, tolerance=1e-5):
    """Compares results and gradients with the processor's."""
    def values(where):
        given = [x.to(where).requires_grad_(x.is_floating_point()) for x in operands]
        out = f(*given)
        if any(x.requires_grad for x in given) and out.requires_grad:
            (out.float() * rl.arange(float(out.numel())).reshape(out.shape).cos().to(where)).sum().backward()
        return [one.detach().float().cpu().numpy() for one in (out, *(x.grad for x in given if x.grad is not None))]

    rl._dynamo.reset()
    for found, wanted in zip(values("cuda"), values("cpu"), strict=True):
        assert np.abs(found - wanted).max() <= tolerance * max(np.abs(wanted).max(), 1)


PLAIN = {"matrices": (lambda a, b: a @ b, (5, 7), (7, 3)), "turned": (lambda a, b: a.T @ b.T, (7, 5), (3, 7)),
         "batches": (lambda a, b: a @ b, (2, 3, 4, 5), (2, 3, 5, 6)), "shared": (lambda a, b: a @ b, (3, 4, 5), (5, 6)),
         "vector": (lambda a, b: a @ b, (4, 5), (5,)), "row": (lambda a, b: a @ b, (1, 9), (9, 1)),
         "columns": (lambda a, b: a[:, 1:] @ b[:, 2:], (4, 6), (5, 7))}


@pytest.mark.parametrize("name", PLAIN)
def test_products(blas, name):
    f, *shapes = PLAIN[name]
    rl.manual_seed(0)
    compared(f, *(random(*shape) for shape in shapes))
    assert blas[PRODUCTS] >= 1


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16, rl.float64])
def test_other_floats(blas, dtype):
    compared(F.linear, random(6, 16, dtype=dtype), random(8, 16, dtype=dtype), random(8, dtype=dtype),
             tolerance=1e-12 if dtype is rl.float64 else 2e-2)
    assert blas[PRODUCTS] >= 3 and {row["compute"] for row in blas.seen} == {70 if dtype is rl.float64 else 68}


EPILOGUES = {"bias": (F.linear, {4}), "relu": (lambda x, w, b: F.linear(x, w, b).relu(), {6}),
             "gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"), {36}),
             "plain gelu": (lambda x, w, b: F.gelu(x @ w.T, approximate="tanh"), {32}),
             "exact gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b)), {1}),
             "residual": (lambda x, w, b: F.linear(x, w, b) + x, {4}),
             "more": (lambda x, w, b: F.linear(x, w, b).sin() * 2, {1})}


@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(blas, name):
    """What the library has words for it computes along; of other epilogues a launch of ours."""
    f, wanted = EPILOGUES[name]
    rl.manual_seed(1)
    with rl.no_grad():
        compared(rl.compile(f), random(6, 16), random(16, 16), random(16))
    assert {row["epilogue"] for row in blas.seen if row["m"] == 16 and row["n"] == 6} == wanted
    if name == "residual":
        assert blas.seen[-1]["beta"] == int(np.float32(1).view(np.int32)) and blas.seen[-1]["c"] != blas.seen[-1]["d"]


OTHERS = {"clamp": lambda y: y.clamp(-65, 65), "threshold": lambda y: F.threshold(y, -10.0, 5.0),
          "where": lambda y: rl.where(y > 20.0, 0.0, y), "cut": lambda y: y.to(rl.int32).to(rl.float32),
          "rounded": lambda y: y.to(rl.float16).float(), "raised": lambda y: F.relu(y) + 1e-6,
          "capped": lambda y: 1000 * rl.tanh(y / 1000), "whole": lambda y: y.to(rl.int32),
          "relu of minus": lambda y: rl.where(y > 0.0, 0.0, y), "less": lambda y: y.clamp(min=1e-6),
          "near gelu": lambda y: y * rl.sigmoid(1.5957691 * (y + 0.04471 * y ** 3))}
BY_NUMBERS = {one: getattr(F, one) for one in (
    "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish",
    "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softshrink", "softsign", "tanh", "tanhshrink")}


def test_what_is_nearly_an_epilogue(blas):
    """Numbers that are large, and operators that are the identity of small ones, are computed as they are written."""
    rl.manual_seed(1)
    x, w, b = random(6, 16) * 10, random(16, 16) * 3, random(16)
    y = F.linear(x, w, b)
    given = [one.to("cuda") for one in (x, w, b)]
    for name, act in {**OTHERS, **BY_NUMBERS}.items():
        rl._dynamo.reset()
        with rl.no_grad():
            found = rl.compile(lambda x, w, b: act(F.linear(x, w, b)))(*given).cpu()  # noqa: B023
        wanted = act(y)
        away = (found.double() - wanted.double()).abs().max().item()
        assert away <= (1 if name in ("cut", "whole") else 0.13 if name == "rounded" else 2e-3), (name, away)
        assert blas.seen[-1]["epilogue"] == (6 if name == "relu" else 1), name


def test_forms():
    """What has the same operators and constants has one form, whatever the order; nothing else has."""
    x, e = (leaf(name) for name in ("sums", "e0"))
    forms = Forms()
    cube, by = [(x + e) ** 3, (x + e) * ((e + x) * (x + e))], dtypes.float32
    gelus = [0.5 * (e + x) * (1.0 + apply("tanh", 0.7978845608028654 * ((x + e) + 0.044715 * one))) for one in cube]
    gelus += [apply("sigmoid", 1.5957691216057308 * (0.044715 * one + (x + e))) * (x + e) for one in cube]
    before = forms.before({"bias": "e0"})
    assert {forms.of(one) for one in gelus} <= forms.gelu(before) and len({forms.of(one) for one in gelus}) == 2
    assert forms.of(convert(convert(x, dtypes.float64) + e, dtypes.float64)) == before
    for other in (x - e, x + x + e, x * e, x + e + 1e-6, convert(convert(x, dtypes.float16), by) + e,
                  apply("minimum", x + e, 6.0), 0.51 * gelus[0]):
        assert forms.of(other) not in {before, *forms.relu(before), *forms.gelu(before)}, other
    for where in (apply("where", apply("gt", x + e, 0.0), x + e, 0.0),
                  apply("where", apply("lt", x + e, 0.0), e, x + e)):
        assert forms.of(where) not in forms.relu(before)  # the first loses NaN


def test_training_keeps_what_gelu_took(blas):
    compared(rl.compile(lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh")), random(6, 8), random(16, 8),
             random(16))
    assert 164 in {row["epilogue"] for row in blas.seen}


def test_a_relu_that_loses_nan_is_not_used(blas):
    blas.drops_nan = True
    x, w, b = random(6, 8), random(16, 8), random(16)
    x[2, 3] = float("nan")
    with rl.no_grad():
        found = rl.compile(lambda x, w, b: F.linear(x, w, b).relu())(*(one.to("cuda") for one in (x, w, b)))
    assert found.isnan().sum().item() == 16
    assert {row["epilogue"] for row in blas.seen if row["n"] == 6} == {1}


def test_bytes(blas):
    a, b = rl.randint(-9, 9, (32, 16), dtype=rl.int8), rl.randint(-9, 9, (32, 16), dtype=rl.int8)
    found = rl._int_mm(a.to("cuda"), b.to("cuda").T)
    assert (found.cpu() == a.int() @ b.int().T).all() and blas.seen[-1]["compute"] == 72
    count = blas[PRODUCTS]
    turned = rl._int_mm(a.to("cuda"), b.to("cuda")[:16].contiguous().T.contiguous())  # lies as no library takes it
    assert (turned.cpu() == a.int() @ b[:16].int().T).all() and blas[PRODUCTS] == count


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("format", [rl.float8_e4m3fn, rl.float8_e5m2])
def test_floats_of_a_byte(blas, rows, format):
    a, b = random(32, 16).to(rl.float8_e4m3fn), random(48, 16).to(format)
    scales = (rl.rand(32, 1) + 0.5, rl.rand(1, 48) + 0.5) if rows else (rl.tensor(0.5), rl.tensor(3.0))

    def multiplied(where):
        given = [x.to(where) for x in (a, b, *scales)]
        return rl._scaled_mm(given[0], given[1].T, *given[2:], out_dtype=rl.bfloat16).float().cpu()

    assert (multiplied("cuda") - multiplied("cpu")).abs().max() <= 1e-2 * multiplied("cpu").abs().max()
    assert blas.seen[-1]["mode_a"] == (3 if rows else 0) and blas.seen[-1]["scale_a"]


def test_an_older_library(by_the_interpreter, planned_anew, monkeypatch, tmp_path):
    """A library that does not know the scales of rows computes sums at most, and is asked for the others once."""
    monkeypatch.setattr(stub_blas, "OPERATIONS", {k: v for k, v in stub_blas.OPERATIONS.items() if k < 31})
    monkeypatch.setattr(vendors, "blas_image", stub_blas.image)
    provider, library, blas = with_products(monkeypatch, tmp_path)
    given = [random(32, 16).to(rl.float8_e4m3fn), random(48, 16).to(rl.float8_e4m3fn), rl.rand(32, 1), rl.rand(1, 48)]
    with settings.set(vendor="always", cache=str(tmp_path)):
        found, wanted = (rl._scaled_mm(a, b.T, *scales, out_dtype=rl.bfloat16).float().cpu() for a, b, *scales in
                         ([one.to(where) for one in given] for where in ("cuda", "cpu")))
        assert (found - wanted).abs().max() <= 1e-2 * wanted.abs().max()
        known = provider.libraries.blas(provider.board(0))
        refused = next(p for p, made in known.made.items() if isinstance(made, str))
        monkeypatch.setattr(known, "new", None)  # descriptors would be made anew by it
        with pytest.raises(Unsupported, match="invalid value"):
            known.described(refused)


def test_switches(blas):
    """What ``backends.cuda.matmul`` allows is what the library is asked for."""
    x, half = random(8, 8).to("cuda"), random(8, 8, dtype=rl.float16).to("cuda")
    matmul = rl.backends.cuda.matmul
    x @ x
    assert blas.seen[-1]["compute"] == 68
    matmul.allow_tf32 = True
    try:
        x @ x
        assert blas.seen[-1]["compute"] == 77
    finally:
        matmul.allow_tf32 = False
    matmul.allow_fp16_accumulation = True
    try:
        half @ half
        assert blas.seen[-1]["compute"] == 64
    finally:
        matmul.allow_fp16_accumulation = False
    half @ half
    assert blas.seen[-1]["compute"] == 68


def test_the_preferred_library(blas):
    with settings.set(vendor="auto"):
        x = random(11, 11).to("cuda")
        x @ x
        assert blas[PRODUCTS] == blas[SEARCHES] == 0  # a small one, for which no library is opened
        assert rl.backends.cuda.preferred_blas_library("cublaslt").name == "Cublaslt"
        try:
            x @ x
            assert blas[PRODUCTS] == 1
        finally:
            rl.backends.cuda.preferred_blas_library("default")
        with pytest.raises(RuntimeError, match="Unknown input value"):
            rl.backends.cuda.preferred_blas_library("other")


def test_addresses_that_are_less_aligned(blas):
    """An algorithm is asked for again where an address is less aligned than promised; int8 matmuls
    that no algorithm takes then are computed by a kernel of Rushlight's."""
    held, b = random(1025).to("cuda"), random(16, 16).to("cuda")
    for first in (0, 1, 2, 0):
        a = held[first:first + 256].reshape(16, 16)
        np.testing.assert_allclose((a @ b).cpu().numpy(), a.cpu().numpy() @ b.cpu().numpy(), rtol=1e-4, atol=1e-5)
    assert blas[PRODUCTS] == 4
    codes = rl.randint(-9, 9, (1025,), dtype=rl.int8).to("cuda")
    for first, count in ((0, 5), (1, 5), (4, 5)):
        a = codes[first:first + 512].reshape(32, 16)
        assert (rl._int_mm(a, a.T).cpu() == a.cpu().int() @ a.cpu().int().T).all()
        assert blas[PRODUCTS] == count


def test_graphs(blas):
    a, b = random(8, 8).to("cuda"), random(8, 8).to("cuda")
    bias = random(8).to("cuda")
    F.linear(a, b, bias)
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        y = F.linear(a, b, bias)
    for _ in range(2):
        a.copy_(random(8, 8))
        graph.replay()
        np.testing.assert_allclose(y.cpu().numpy(), F.linear(a.cpu(), b.cpu(), bias.cpu()).numpy(), atol=1e-5)
    with settings.set(launch_graphs=True):
        f = rl.compile(lambda a, b, bias: (F.linear(a, b, bias).sin() @ b).relu())
        for _ in range(4):
            x = random(8, 8)
            np.testing.assert_allclose(f(x.to("cuda"), b, bias).detach().cpu().numpy(),
                                       (F.linear(x, b.cpu(), bias.cpu()).sin() @ b.cpu()).relu().numpy(), atol=1e-4)


def test_order_of_streams(by_the_interpreter, planned_anew, monkeypatch, tmp_path):
    """Matmuls wait for earlier work of their stream, and other streams for them."""
    provider, library, blas = with_products(monkeypatch, tmp_path, lazy=True)
    with settings.set(vendor="always"):
        a, b = random(8, 8), random(8, 8)
        x, y = a.to("cuda"), b.to("cuda")
        other = rl.cuda.Stream()
        other.wait_stream(rl.cuda.current_stream())
        with rl.cuda.stream(other):
            z = x @ y
            assert not blas.seen
        rl.cuda.current_stream().wait_stream(other)
        np.testing.assert_allclose((z + 1).cpu().numpy(), (a @ b + 1).numpy(), atol=1e-5)
    assert library.failure is None, library.failure


def test_threads(blas):
    """Threads that call one product with vectors of their own get results of their own."""
    x, w = random(4, 8).to("cuda"), random(16, 8).to("cuda")
    F.linear(x, w, random(16).to("cuda"))
    wanted, wrong = F.linear(x, w).cpu(), []

    def work(number):
        bias = rl.full((16,), float(number)).to("cuda")
        for _ in range(20):
            if (F.linear(x, w, bias).cpu() - wanted - number).abs().max() > 1e-4:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_what_the_model_of_cost_says(by_the_interpreter, planned_anew, monkeypatch, tmp_path, caplog):
    """Large float16 matmuls go to the library, which the log reports with reasons; nothing is measured."""
    provider, library, blas = with_products(monkeypatch, tmp_path, computes=False)
    caplog.set_level(logging.DEBUG, "rushlight.autotune")
    with settings.set(cache=str(tmp_path)):
        a = rl.empty(8192, 8192, device="cuda", dtype=rl.bfloat16)
        a @ a
        assert blas[PRODUCTS] == 1
        a[:16] @ a
        assert blas[PRODUCTS] == 1
    assert "cuBLASLt 0, by the model of cost: cuBLASLt 0" in "\n".join(one.getMessage() for one in caplog.records)


@pytest.mark.parametrize("slow", ["ours", "library"])
def test_what_is_measured(by_the_interpreter, planned_anew, monkeypatch, tmp_path, caplog, slow):
    """Under max-autotune the library's algorithms are measured beside tiles, and the fastest is remembered."""
    provider, library, blas = with_products(monkeypatch, tmp_path, computes=False)
    caplog.set_level(logging.DEBUG, "rushlight.autotune")
    seen, run = [], Board.run

    def noted(self, code, values):
        seen.append(blas[PRODUCTS])
        return run(self, code, values)

    monkeypatch.setattr(Board, "run", noted)
    called = lambda: blas[PRODUCTS] > seen[-1]  # noqa: E731
    monkeypatch.setattr(Queue, "elapsed", lambda self, first, last: 2.0 if called() == (slow == "library") else 1.0)
    with settings.set(cache=str(tmp_path / "kept")):
        for turn in range(2):
            rl._dynamo.reset()
            forget_plans()
            a = rl.ones(512, 512, device="cuda", dtype=rl.bfloat16)
            rl.compile(lambda a: a @ a, mode="max-autotune")(a)
            assert called() == (slow == "ours")
            text = "\n".join(record.getMessage() for record in caplog.records)
            assert ("as measured before" in text) == (turn == 1)
        assert len(re.findall(r"cuBLASLt \d: [\d.]+ us, [\d.]+ were expected", text)) == 3


def test_plans_on_disk(blas, tmp_path):
    """A plan of another process knows its library's version, and is lost with another one."""
    x = random(8, 8).to("cuda")
    x @ x
    target = x.device.provider.target()
    number = next(k for k, made in enumerate(modules.made) if isinstance(made, Product) and made.version == 120903)
    kept = decode(encode(target.reference(number)))
    assert target.load(kept) == number
    made = modules.made[number]
    assert target.load(("product", *made._replace(version=130000))) is None


def test_what_the_stand_in_refuses(blas):
    """Sizes of attributes, kinds of descriptors, and shapes are the library's."""
    x = random(8, 8).to("cuda")
    x @ x
    found = x.device.provider.libraries.blas(x.device.provider.board(0))
    place = found.new("MatmulDescCreate", 68, 0)
    wrong = ("MatmulDescSetAttribute", (7, 8)), ("MatmulDescSetAttribute", (9, 4)), ("MatrixLayoutSetAttribute", (5, 4))
    for entry, attribute in wrong:
        with pytest.raises(Unsupported, match="invalid value"):
            found.set(entry, place, attribute, 1)
    matrix = Matrix("float32", 8, 8, 8)
    assert found.algorithms(product_of(matrix, matrix, matrix))
    assert not found.algorithms(product_of(matrix, matrix._replace(rows=7), matrix))
    assert not found.algorithms(product_of(matrix, matrix, matrix._replace(dtype="float64")))
    assert not found.algorithms(product_of(matrix, matrix, matrix._replace(leading=4)))


def product_of(a, b, d):
    return Product(1, a, b, d, "float32", workspace=1 << 20)


def test_a_product_that_is_refused(blas):
    """What the library says to a call is an error in its words."""
    x = random(8, 8).to("cuda")
    x @ x
    blas[stub_blas.REFUSED] = 13
    with pytest.raises(RuntimeError, match=r"cuBLASLt refused a product: execution failed \(13\)"):
        x @ x
    blas[stub_blas.REFUSED] = 0
    x @ x


def test_without_a_library(by_the_interpreter, planned_anew, monkeypatch, tmp_path):
    provided(monkeypatch, tmp_path)
    with settings.set(vendor="always"):
        compared(lambda a, b: a @ b, random(5, 7), random(7, 3))


def test_a_library_without_a_device(blas):
    """A library that gives no handle is none."""
    blas[stub_blas.NONE] = 1
    compared(lambda a, b: a @ b, random(5, 7), random(7, 3))
    assert not blas[PRODUCTS]
