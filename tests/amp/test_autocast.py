"""Autocast beside torch's: which operators compute in which precision, in eager and compiled code."""
import threading

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as RF

torch = pytest.importorskip("torch")
TF = torch.nn.functional

CALLS = {
    "matmul": lambda t, F, x, y: x @ y, "linear": lambda t, F, x, y: F.linear(x, y, t.ones(4)),
    "addmm": lambda t, F, x, y: t.addmm(t.ones(4), x, y),
    "bmm": lambda t, F, x, y: t.bmm(x[None], y[None]), "conv1d": lambda t, F, x, y: F.conv1d(x[None], t.ones(2, 4, 3)),
    "add": lambda t, F, x, y: x + y,
    "conv_transpose2d": lambda t, F, x, y: F.conv_transpose2d(x[None, None], t.ones(1, 2, 3, 3)),
    "einsum": lambda t, F, x, y: t.einsum("ij,jk->ik", x, y), "softmax": lambda t, F, x, y: F.softmax(x @ y, -1),
    "layer_norm": lambda t, F, x, y: F.layer_norm(x @ y, (4,)),
    "attention": lambda t, F, x, y: F.scaled_dot_product_attention(x[None], y[None], y[None]),
    "mse": lambda t, F, x, y: F.mse_loss(x @ y, y),
    "cross_entropy": lambda t, F, x, y: F.cross_entropy(x @ y, t.arange(4)),
    "l1": lambda t, F, x, y: F.l1_loss(x @ y, y), "sum": lambda t, F, x, y: (x @ y).sum(),
    "kl": lambda t, F, x, y: F.kl_div((x @ y).log_softmax(-1), y.softmax(-1), reduction="sum"),
    "prod": lambda t, F, x, y: (x @ y).prod(), "trace": lambda t, F, x, y: (x @ y).trace(),
    "double": lambda t, F, x, y: x.double() @ y.double(), "prelu": lambda t, F, x, y: F.prelu(x, t.tensor([0.3])),
    "mixed": lambda t, F, x, y: t.cat([x @ y, x]),
    "gelu": lambda t, F, x, y: F.gelu(x @ y), "norm": lambda t, F, x, y: t.linalg.norm(x @ y),
    "cdist": lambda t, F, x, y: t.cdist(x @ y, y),
    "bce": lambda t, F, x, y: F.binary_cross_entropy_with_logits(x @ y, y.sigmoid()),
    "int": lambda t, F, x, y: x.int() + y.int()}


def operands(t):
    rng = np.random.default_rng(0)
    return [t.tensor(rng.standard_normal((4, 4)).astype(np.float32)) for _ in range(2)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_precisions_are_torchs(name, dtype):
    def run(t, F):
        with t.autocast("cpu", dtype=getattr(t, dtype)):
            return CALLS[name](t, F, *operands(t))
    ours, theirs = run(rl, RF), run(torch, TF)
    assert str(ours.dtype) == str(theirs.dtype)
    np.testing.assert_allclose(ours.float().numpy(), theirs.float().numpy(), rtol=0.05, atol=0.1)


@pytest.mark.parametrize("name", CALLS)
def test_compiled_code_computes_in_the_same_precision(name):
    def inside(x, y):
        with rl.autocast("cpu"):
            return CALLS[name](rl, RF, x, y)

    def outside(x, y):
        return CALLS[name](rl, RF, x, y)

    x, y = operands(rl)
    eager = inside(x, y)
    made = rl.compile(inside)
    first = made(x, y)
    again = rl.compile(outside)
    with rl.autocast("cpu"):
        second = again(x, y)
    third = again(x, y)
    for got in (first, second):
        assert got.dtype is eager.dtype
        np.testing.assert_allclose(got.float().numpy(), eager.float().numpy(), rtol=0.02, atol=0.02)
    assert third.dtype is outside(x, y).dtype


def test_blocks_nest_and_decorate():
    a = rl.ones(2, 2)
    with rl.autocast("cpu"):
        assert rl.is_autocast_enabled("cpu") and rl.get_autocast_dtype("cpu") is rl.bfloat16
        with rl.autocast("cpu", enabled=False):
            assert (a @ a).dtype is rl.float32
            with rl.autocast("cpu", dtype=rl.float16):
                assert (a @ a).dtype is rl.float16
        assert (a @ a).dtype is rl.bfloat16

    @rl.autocast("cpu")
    def product():
        return a @ a
    assert product().dtype is rl.bfloat16 and (a @ a).dtype is rl.float32 and not rl.is_autocast_enabled("cpu")
    with rl.cpu.amp.autocast():
        assert (a @ a).dtype is rl.bfloat16


def test_an_error_leaves_no_mode_behind():
    with pytest.raises(ZeroDivisionError), rl.autocast("cpu"):
        raise ZeroDivisionError
    assert not rl.is_autocast_enabled("cpu")


def test_threads_have_modes_of_their_own():
    seen = []
    with rl.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((rl.ones(2, 2) @ rl.ones(2, 2)).dtype))
        thread.start()
        thread.join()
        assert (rl.ones(2, 2) @ rl.ones(2, 2)).dtype is rl.bfloat16
    assert seen == [rl.float32]


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_and_copies_of_parameters(compiled):
    def run(t, compiled=False):
        t.manual_seed(0)
        w = t.linspace(-1, 1, 16).reshape(4, 4).requires_grad_()
        x = t.linspace(0, 1, 8).reshape(2, 4)

        def loss(x):
            with t.autocast("cpu", dtype=t.bfloat16):
                return (x @ w @ w).float().square().sum()
        f = t.compile(loss) if compiled else loss
        for _ in range(2):
            f(x).backward()
        return w.grad
    ours, theirs = run(rl, compiled), run(torch)
    assert ours.dtype is rl.float32
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=0.03, atol=0.05)


def test_copies_are_made_once_and_follow_changes():
    from rushlight._src.eager.casts import choices
    w, x = rl.ones(2, 2, requires_grad=True), rl.ones(1, 2)
    with rl.autocast("cpu"):
        x @ w
        assert len(choices.copies) == 1
        with rl.no_grad():
            w.mul_(3)
        assert (x @ w).tolist() == [[6.0, 6.0]]
        for _ in range(2):  # a history that was used up is not used again
            (x @ w).sum().backward()
    assert not choices.copies and w.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_functions_of_ones_own():
    def run(t):
        seen = []

        class Product(t.autograd.Function):
            @staticmethod
            @t.amp.custom_fwd(device_type="cpu")
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                out = a @ b
                seen.append(str(out.dtype))
                return out

            @staticmethod
            @t.amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                a, b = ctx.saved_tensors
                out = g @ b.T
                seen.append(str(out.dtype))
                return out.to(a.dtype), (a.T @ g).to(b.dtype)

        class Full(t.autograd.Function):
            @staticmethod
            @t.amp.custom_fwd(device_type="cpu", cast_inputs=t.float32)
            def forward(ctx, a):
                seen.append((str(a.dtype), t.is_autocast_enabled("cpu")))
                return a * 1

            @staticmethod
            @t.amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                return g

        a = t.ones(2, 2, requires_grad=True)
        with t.autocast("cpu", dtype=t.bfloat16):
            out = Product.apply(a, a)
            Full.apply(a @ a)
        out.float().sum().backward()
        return seen
    assert run(rl) == run(torch)


@pytest.mark.parametrize("arguments,error", [((3,), ValueError), (("nothing",), RuntimeError)])
def test_unknown_devices_are_refused(arguments, error):
    for t in (rl, torch):
        with pytest.raises(error):
            t.autocast(*arguments)


def test_what_is_not_there_is_disabled_with_a_warning():
    with pytest.warns(UserWarning, match="not supported"), rl.autocast("cpu", dtype=rl.float32):
        assert (rl.ones(1, 1) @ rl.ones(1, 1)).dtype is rl.float32
    with pytest.warns(UserWarning, match="not available"), rl.autocast("cuda"):
        assert not rl.is_autocast_enabled("cpu")
