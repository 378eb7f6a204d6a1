"""Custom operators: eager, gradients, vmap, in compiled graphs, and their errors."""
import numpy as np
import pytest

import rushlight as torch
from rushlight import Tensor

library = torch.library


@library.custom_op("tests::cube", mutates_args=())
def cube(x: Tensor, scale: float = 1.0) -> Tensor:
    return torch.from_numpy(x.detach().numpy() ** 3 * np.float32(scale))


@cube.register_fake
def _(x, scale=1.0):
    return torch.empty_like(x)


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]
    assert ctx.needs_input_grad[1] is False


def pull(ctx, gradient):
    x, = ctx.saved_tensors
    return gradient * 3 * x * x * ctx.scale, None


cube.register_autograd(pull, setup_context=keep)


@cube.register_vmap
def _(info, in_dims, x, scale=1.0):
    return cube(x, scale), in_dims[0]


@library.custom_op("tests::increase", mutates_args=("x",))
def increase(x: Tensor, by: int) -> None:
    x.numpy()[...] += by


@library.custom_op("tests::signed", mutates_args=())
def signed(parts: list[Tensor], dim: int) -> tuple[Tensor, Tensor]:
    joined = torch.cat(parts, dim)
    return joined, -joined


@signed.register_fake
def _(parts, dim):
    joined = torch.cat(parts, dim)
    return joined, -joined


signed.register_autograd(lambda ctx, g, h: ([(g - h)[:2], (g - h)[2:]], None))


def test_it_runs_and_differentiates_as_often_as_wanted():
    x = torch.randn(4, requires_grad=True)
    y = cube(x, 2.0)
    assert torch.allclose(y, 2 * x ** 3)
    for times in (1, 2):
        y.sum().backward(retain_graph=True)
        assert torch.allclose(x.grad, times * 6 * x.detach() ** 2)
    assert torch.ops.tests.cube(
        torch.tensor([2.0])).item() == 8 and torch.ops.tests.cube.default is torch.ops.tests.cube.default


def test_it_is_one_step_of_a_compiled_graph():
    x = torch.randn(5, requires_grad=True)
    program = lambda x: cube(x.sin(), 2.0).cos().sum()  # noqa: E731
    expected, = torch.autograd.grad(program(x), x)
    compiled = torch.compile(program, fullgraph=True)
    assert torch.allclose(compiled(x), program(x))
    assert torch.allclose(torch.autograd.grad(compiled(x), x)[0], expected)


def test_lists_and_several_results():
    p = torch.ones(2, requires_grad=True)
    first, second = signed([p, torch.zeros(2)], 0)
    (first.sum() * 2 + second.sum()).backward()
    assert p.grad.tolist() == [1, 1]

    def program(p):
        a, b = signed([p, p * 2], 0)
        return (a * 3 + b).sum()

    assert torch.compile(program, fullgraph=True)(torch.ones(2)).item() == program(torch.ones(2)).item() == 12


def test_writes_show_in_eager_and_compiled():
    a = torch.zeros(3)
    increase(a, 2)
    assert a.tolist() == [2, 2, 2] and a._version == 1

    @torch.compile(fullgraph=True)
    def inside(a):
        b = a + 1
        increase(b, 5)
        return b * 2

    @torch.compile(fullgraph=True)
    def outside(a):
        increase(a, 5)
        return a * 2

    assert inside(torch.zeros(2)).tolist() == [12, 12]
    a = torch.zeros(2)
    assert outside(a).tolist() == [10, 10] and a.tolist() == [5, 5]


def test_transforms():
    assert torch.vmap(cube)(torch.ones(3, 2)).shape == (3, 2)
    assert torch.func.grad(lambda x: cube(x).sum())(torch.ones(3)).tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="register_vmap"):
        torch.vmap(lambda x: signed([x, x], 0)[0])(torch.ones(2, 2))


def test_libraries_by_schema():
    lib = library.Library("tests_lib", "DEF")
    assert lib.define("plus(Tensor x, int n=1) -> Tensor") == "plus"

    @library.impl("tests_lib::plus", "CPU")
    def _(x, n=1):
        return x + n

    assert torch.ops.tests_lib.plus(torch.ones(2), n=3).tolist() == [4, 4]
    lib.define("scaled(Tensor(a!) x, float by) -> ()")
    lib.impl("scaled", scale_, "CPU")
    x = torch.ones(2)
    torch.ops.tests_lib.scaled(x, 3.0)
    assert x.tolist() == [3, 3]
    lib._destroy()
    with pytest.raises(AttributeError, match="no attribute 'plus'"):
        torch.ops.tests_lib.plus


def scale_(x, by):
    x.mul_(by)


def test_opcheck_accepts_what_is_right_and_finds_what_is_not():
    assert set(library.opcheck(cube, (torch.randn(3, requires_grad=True), 2.0)).values()) == {"SUCCESS"}
    assert set(library.opcheck(increase, (torch.zeros(3), 2)).values()) == {"SUCCESS"}

    @library.custom_op("tests::liar", mutates_args=())
    def liar(x: Tensor) -> Tensor:
        x.numpy()[...] = 0
        return x.clone()

    liar.register_fake(lambda x: x.new_empty(7))
    with pytest.raises(Exception, match="mutates_args"):
        library.opcheck(liar, (torch.ones(2),), test_utils="test_schema")
    with pytest.raises(Exception, match="fake rule"):
        library.opcheck(liar, (torch.ones(2),), test_utils="test_faketensor")


def test_schemas():
    assert library.infer_schema(cube._init_fn, mutates_args=()) == "(Tensor x, float scale=1.0) -> Tensor"
    assert library.infer_schema(increase._init_fn, mutates_args=("x",)) == "(Tensor(a0!) x, SymInt by) -> ()"
    with pytest.raises(ValueError, match="annotation"):
        library.infer_schema(lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="namespace"):
        library.custom_op("plain", lambda x: x, mutates_args=())


def test_errors_say_what_is_missing():
    @library.custom_op("tests::bare", mutates_args=())
    def bare(x: Tensor) -> Tensor:
        return x * 2

    with pytest.raises(RuntimeError, match="no autograd formula"):
        bare(torch.ones(1, requires_grad=True)).backward()
    with pytest.raises(NotImplementedError, match="register_fake"):
        bare(torch.ones(1, device="meta"))
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor'"):
        bare(3)
    with pytest.raises(RuntimeError, match="functional"):
        increase.register_autograd(lambda ctx, g: g)
    with pytest.raises(NotImplementedError, match="Triton kernels"):
        library.triton_op("tests::kernel", mutates_args=())
    with pytest.raises(RuntimeError, match="define it first"):
        library.register_fake("tests::unknown", lambda x: x)

    @library.custom_op("tests::alias", mutates_args=())
    def alias(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError, match="one of the arguments"):
        alias(torch.ones(1))


def test_modes_see_it():
    from rushlight.utils._python_dispatch import TorchDispatchMode
    seen = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Names():
        cube(torch.ones(2))
    assert torch.ops.tests.cube.default in seen


def test_schemas_are_inferred_by_pytorchs_own_path():
    from rushlight._library.infer_schema import infer_schema
    assert infer_schema is torch.library.infer_schema


def test_gradients_are_for_positional_arguments_alone():
    def run(t):
        @t.library.custom_op(f"{t.__name__}_tests::scaled_sum", mutates_args=())
        def scaled_sum(x: t.Tensor, y: t.Tensor, *, scale: float) -> t.Tensor:
            return x * scale + y

        def keep(ctx, inputs, keyword_only_inputs, output):
            ctx.scale, ctx.count = keyword_only_inputs["scale"], len(inputs)

        scaled_sum.register_autograd(lambda ctx, g: (g * ctx.scale, g), setup_context=keep)
        x, y = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
        return [g.tolist() for g in t.autograd.grad(scaled_sum(x, y, scale=3.0).sum(), (x, y))]

    assert run(torch) == run(pytest.importorskip("torch")) == [[3.0, 3.0], [1.0, 1.0]]
