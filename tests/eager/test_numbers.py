"""Numbers are run-time values: what was planned for some of them serves all others, and what is decided by a number is
decided anew."""
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.native import Op
from rushlight._src.core.op import make, parameters
from rushlight._src.core.operands import takes_element
from rushlight._src.core.settings import settings
from rushlight._src.eager import numbers, plan

F = rl.nn.functional
EXCEPT = {("var", "correction"), ("std", "correction"), ("var_mean", "correction"), ("std_mean", "correction"),
          # compared with the number of elements
          ("mvlgamma", 0)}  # how many terms are added
KNOWN, NEW = 2, 3  # values by which an operator learns; values that must not be planned for


@pytest.fixture
def made(monkeypatch):
    """The names of operators that were planned, forward or backward."""
    names, original = [], plan.make_plan
    monkeypatch.setattr(plan, "make_plan", lambda op, *rest: (names.append(op.name), original(op, *rest))[1])
    with settings.set(store=False):
        yield names


def values(base):
    """Numbers near a float, and ints above 10 (operators decide by smaller ones); none twice."""
    if type(base) is int:
        return [11 + k for k in range(KNOWN + NEW)]
    return [base * (1 + k / 97) + (base == 0) * k / 1000 for k in range(KNOWN + NEW)]


def takes_float(call):
    """True if a parameter of an operator of ours is a float unless said otherwise."""
    return isinstance(call, Op) and any(type(p.default) is float for p in call.signature.parameters.values())


def takes_int(call, at):
    """True if an operator of ours computes with the int that it is given at ``at`` (a place after the input, or a
    keyword)."""
    if not isinstance(call, Op) or call.traits.get("composite"):
        return False
    order = list(call.signature.parameters)
    return takes_element(call, at if type(at) is str else order[min(at + 1, len(order) - 1)])


def entries(kind):
    """Each float, or each int that is computed with, that PyTorch's database gives an operator: (entry, sample, place
    of the number)."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    from tests.ops.database import function
    random = ("dropout", "normal", "bernoulli", "uniform", "exponential", "geometric", "cauchy", "rrelu", "rand",
              "multinomial", "lowrank", "attention")
    for info in op_db:
        seen = {"scale_factor"}  # which decides sizes
        if torch.float32 not in info.supported_dtypes("cpu") or any(word in info.name
                                                                    for word in random) or kind is float and (
                                                                        not takes_float(function(info.name))):
            continue
        torch.manual_seed(0)
        for sample in itertools.islice(info.sample_inputs("cpu", torch.float32), 8):
            for at, value in itertools.chain(enumerate(sample.args), sample.kwargs.items()):
                if type(value) is kind and math.isfinite(value) and at not in seen and (
                        kind is float or (info.name, at) not in EXCEPT and takes_int(function(info.name), at)):
                    seen.add(at)
                    yield info, sample, at


def op_of(body):
    """An operator of a test."""
    signature, scalars = parameters(body)
    return make(body.__name__, body, None, signature, scalars)


def results(function, input, args, kwargs):
    """The floating results of a call, and the gradient of the first argument."""
    if hasattr(input, "is_floating_point") and input.is_floating_point():
        input = input.detach().clone().requires_grad_()
    out = function(input, *args, **kwargs)
    out = [y for y in (out if isinstance(out, (tuple, list)) else [out]) if hasattr(y, "is_floating_point")
           and y.is_floating_point()]
    live = [y for y in out if y.requires_grad]
    if live:
        sum((y * y).sum() for y in live).backward()
    return [y.detach() for y in out] + [input.grad for _ in live[:1] if input.grad is not None]


def outcome(function, sample, at, value):
    """What a call gives with another number in one place; the name of the error that it raises."""
    args, kwargs = list(sample.args), dict(sample.kwargs)
    (args if type(at) is int else kwargs)[at] = value
    try:
        return results(function, sample.input, args, kwargs)
    except Exception as error:  # noqa: BLE001 - compared by kind
        return type(error).__name__


def same_outcome(got, wanted):
    """True if two calls gave the same results, or raised errors of one name."""
    if type(got) is str or type(wanted) is str:
        return got == wanted
    return len(got) == len(wanted) and all(np.allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-5, equal_nan=True)
                                           for a, b in zip(got, wanted))


@pytest.mark.parametrize("kind", [float, int])
def test_every_number_of_the_database_is_a_run_time_value(made, kind):
    """New numbers make no plans, and give what PyTorch gives, gradients included."""
    from tests.ops.database import function, ours
    wrong = []
    for info, sample, at in entries(kind):
        call = function(info.name)
        try:
            mine = SimpleNamespace(input=ours(sample.input), args=ours(list(sample.args)), kwargs=ours(sample.kwargs))
        except NotImplementedError:
            continue
        for k, value in enumerate(values(sample.args[at] if type(at) is int else sample.kwargs[at])):
            with settings.set(kernels=False):
                got = outcome(call, mine, at, value)
            if k < KNOWN and type(got) is str:  # not for this number
                break
            if k < KNOWN:
                made.clear()
                continue
            wanted = outcome(info.op, sample, at, value)
            if not same_outcome(got, wanted):
                wrong.append(f"{info.name} {at}={value}: {got}, not {wanted}")
        if made:
            wrong.append(f"{info.name} {at}: plans of {sorted(set(made))}")
    assert not wrong, "\n".join(wrong)


def test_conditions_choose_among_plans(made):
    x = rl.tensor([-2.0, 0.5, 3.0])

    @op_of
    def bent(input, slope):
        if slope == 0:
            return input.relu()
        return input * slope if slope > 1 else input * (slope + 1)

    for slope in (0.25, 0.5, 0.75, 0.0, 2.0, 0.125, 3.0, 0.0, 1.0, 4.0):
        wanted = [max(v, 0.0) if slope == 0 else v * slope if slope > 1 else v * (slope + 1) for v in x.tolist()]
        assert bent(x, slope).tolist() == wanted
    assert made.count("bent") == 1 + 3  # the first for itself, then one for each way


def test_what_needs_the_number_keeps_it_in_the_key(made):
    @op_of
    def repeated(input, times):
        return sum((input for _ in range(times - 1)), input)

    x = rl.ones(3)
    assert [repeated(x, k).sum().item() for k in range(1, 19)] == [3.0 * k for k in range(1, 19)]
    assert numbers.experience(repeated).structure == {1} and not repeated.scalars >> 1 & 1
    assert repeated(x, 20).tolist() == [20.0] * 3


def test_what_a_rule_for_quantized_tensors_needs_stays_a_run_time_value_for_others(made):
    x = rl.tensor([-2.0, 0.5, 3.0])
    quantized = rl.quantize_per_tensor(x, 0.25, 8, rl.quint8)
    for k in range(1, 9):
        assert quantized.clamp(min=k / 4).dequantize().tolist() == [max(v, k / 4) for v in x.tolist()]
    for k in range(KNOWN):
        x.clamp(min=k / 8)
    made.clear()
    assert x.clamp(min=0.75).tolist() == [0.75, 0.75, 3.0] and not made


def test_an_error_leaves_what_was_learned():
    x = rl.tensor([3], dtype=rl.int8)
    assert [x.clamp(min=k).item() for k in range(4, 20)] == list(range(4, 20))
    with pytest.raises(RuntimeError, match="overflow"):
        x.clamp(min=1000)
    assert [x.clamp(min=k).item() for k in (8, 9, 10, 11)] == [8, 9, 10, 11]


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, math.nan])
def test_special_numbers(value):
    x = rl.tensor([1.0, -1.0, 0.0])
    for known in (0.5, 0.25, 0.75, 2.0):
        x.clamp(max=known), F.threshold(x, known, 1.0), F.threshold(x, 0.5, known)
    torch = pytest.importorskip("torch")
    y = torch.tensor([1.0, -1.0, 0.0])
    for mine, theirs in ((x.clamp(max=value), y.clamp(max=value)),
                         (F.threshold(x, value, 1.0), torch.nn.functional.threshold(y, value, 1.0)),
                         (F.threshold(x, 0.5, value), torch.nn.functional.threshold(y, 0.5, value))):
        assert mine.numpy().tobytes() == theirs.numpy().tobytes()


def test_dropout_with_new_probabilities(made):
    x = rl.ones(1000, requires_grad=True)
    for k in range(1, 20):
        if k == 6:
            made.clear()
        p = k / 20
        y = F.dropout(x, p)
        grad, = rl.autograd.grad(y.sum(), x)
        assert abs((y == 0).float().mean().item() - p) < 0.1
        np.testing.assert_allclose(y.detach().numpy(), np.where(y.detach().numpy() == 0, 0, 1 / (1 - p)), rtol=1e-6)
        np.testing.assert_array_equal(grad.numpy(), y.detach().numpy())
    assert not made


def test_second_derivatives_and_transforms_of_new_numbers():
    x = rl.tensor([0.5, 2.0])
    for k in range(1, 9):
        power = k / 3 + 1
        inner = rl.func.grad(rl.func.grad(lambda v: (v ** power).sum()))  # noqa: B023 - called at once
        np.testing.assert_allclose(rl.vmap(inner)(x).numpy(), power * (power - 1) * x.numpy() ** (power - 2), rtol=1e-5)
        v = x.clone().requires_grad_()
        first, = rl.autograd.grad((v ** power).sum(), v, create_graph=True)
        second, = rl.autograd.grad(first.sum(), v)
        np.testing.assert_allclose(second.numpy(), power * (power - 1) * x.numpy() ** (power - 2), rtol=1e-5)


def test_transforms_choose_by_the_number():
    x = rl.tensor([1.0, 2.0, 3.0])
    for p in (2.5, 3.5, 4.5, 5.5, 1.0, 2.0, 3.0, math.inf, 6.5):
        wanted, = rl.autograd.grad(rl.linalg.vector_norm(v := x.clone().requires_grad_(), p), v)
        np.testing.assert_allclose(rl.func.grad(lambda a: rl.linalg.vector_norm(a, p))(x).numpy(), wanted.numpy(),
                                   rtol=1e-5)  # noqa: B023 - called at once
        np.testing.assert_allclose(rl.vmap(rl.func.grad(lambda a: rl.linalg.vector_norm(a, p)))(x[None])[0].numpy(),
                                   wanted.numpy(), rtol=1e-5)  # noqa: B023


def test_the_scale_of_attention_is_a_run_time_number(made):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))
    theirs = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    for at, scale in enumerate(values(0.3)):
        if at == KNOWN:
            made.clear()
        ours = [rl.from_numpy(x.detach().numpy()).requires_grad_() for x in (q, k, v)]
        found, wanted = (package.nn.functional.scaled_dot_product_attention(*x, scale=scale)
                         for package, x in ((rl, ours), (torch, theirs)))
        assert np.allclose(found.detach().numpy(), wanted.detach().numpy(), atol=1e-5)
        for gradient, right in zip(rl.autograd.grad(found.square().sum(), ours),
                                   torch.autograd.grad(wanted.square().sum(), theirs)):
            assert np.allclose(gradient.numpy(), right.numpy(), atol=1e-4)
    assert not made


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles_from_new_diagonals(made, name):
    """One plan serves diagonals of both signs, forward and backward, and those that lie outside of the matrix."""
    x = np.arange(1.0, 21.0, dtype=np.float32).reshape(4, 5)
    for k in (0, 1, -1, 2, -2, 3, -3, 4, 17, -17, 1 << 40, -(1 << 40)):
        given = rl.tensor(x, requires_grad=True)
        result = getattr(given, name)(k)
        result.sum().backward()
        wanted = getattr(np, name)(x, k)
        assert np.array_equal(result.detach().numpy(), wanted) and np.array_equal(given.grad.numpy(), wanted != 0)
    assert made.count(name) == 1
    for wrong in (1.0, "1", None):
        with pytest.raises(TypeError, match="diagonal"):
            getattr(rl.tensor(x), name)(wrong)
