"""Operators on lists of tensors, beside torch."""
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


def lists(t):
    return [t.tensor([1.0, -2.0, 3.0]), t.tensor([[0.5, 0.25]])], [t.tensor([2.0, 1.0, 4.0]), t.tensor([[3.0, -1.0]])]


PROGRAMS = {
    "add lists": lambda t, a, b: t._foreach_add(a, b),
    "add scaled": lambda t, a, b: t._foreach_add(a, b, alpha=2),
    "a number": lambda t, a, b: t._foreach_mul(a, 3.0),
    "numbers": lambda t, a, b: t._foreach_div(a, [2.0, 4.0]),
    "a tensor": lambda t, a, b: t._foreach_mul(a, t.tensor(2.0)),
    "unary": lambda t, a, b: t._foreach_exp(a),
    "three": lambda t, a, b: t._foreach_addcdiv(a, b, b, [0.5, 2.0]),
    "three, tensor": lambda t, a, b: t._foreach_addcmul(a, b, b, t.tensor([0.5, 2.0])),
    "lerp": lambda t, a, b: t._foreach_lerp(a, b, 0.25),
    "norm": lambda t, a, b: t._foreach_norm(a, 2),
    "max": lambda t, a, b: t._foreach_max(a),
    "clamp": lambda t, a, b: t._foreach_clamp_min(a, 0.5),
    "maximum": lambda t, a, b: t._foreach_maximum(a, b),
    "maximum, a number": lambda t, a, b: t._foreach_maximum(a, 0.5),
    "minimum, numbers": lambda t, a, b: t._foreach_minimum(a, [0.5, 0.3]),
    "three, numbers by name": lambda t, a, b: t._foreach_addcdiv(a, b, b, scalars=[0.5, 2.0]),
    "norm by names": lambda t, a, b: t._foreach_norm(a, ord=1, dtype=t.float64),
    "a number first": lambda t, a, b: t._foreach_pow(2.0, a),
    "types": lambda t, a, b: [type(t._foreach_add(a, 1.0)), type(t.ops.aten._foreach_add.Scalar(a, 1.0))],
    "the list itself": lambda t, a, b: [t._foreach_add_(a, 1.0) is a, t._foreach_exp_(a) is a,
                                        t._foreach_maximum_(a, b) is a, t._foreach_zero_(tuple(a)) == tuple(a)],
    "of aten": lambda t, a, b: (t.ops.aten._foreach_add_.List(a, b), t.ops.aten._foreach_neg.default(b), a),
    "pow": lambda t, a, b: t._foreach_pow(b, 2),
    "in place": lambda t, a, b: (t._foreach_add_(a, b, alpha=-1), t._foreach_sqrt_(b), t._foreach_zero_(b), a, b)[1:],
    "copy": lambda t, a, b: (t._foreach_copy_(a, b), a)[1],
}


def outcome(t, program):
    found = PROGRAMS[program](t, *lists(t))
    return str(list(found) if isinstance(found, (list, tuple)) else found).replace("()", "None")


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_torch(program):
    assert outcome(rushlight, program) == outcome(torch, program)


def test_every_name_of_torch():
    assert not [name for name in dir(torch) if name.startswith("_foreach_") and not hasattr(rushlight, name)]


@pytest.mark.parametrize("wrong, error", [
    (lambda t, a, b: t._foreach_add(a, b[:1]), RuntimeError), (lambda t, a, b: t._foreach_exp(a[0]), TypeError),
    (lambda t, a, b: t._foreach_exp([]), RuntimeError),
    (lambda t, a, b: t._foreach_add(a, t.ones(2)), RuntimeError), (lambda t, a, b: t._foreach_add(a, []), RuntimeError),
    (lambda t, a, b: t._foreach_clamp_max(a, t.ones(2)), TypeError),
    (lambda t, a, b: t._foreach_addcmul(a, b, b, t.ones(())), RuntimeError),
    (lambda t, a, b: t._foreach_addcmul(a, b, b, t.ones(1)), RuntimeError),
    (lambda t, a, b: t._foreach_frobnicate(a), AttributeError)])
def test_wrong_lists(wrong, error):
    for t in (rushlight, torch):
        with pytest.raises(error):
            wrong(t, *lists(t))


def test_gradients_flow():
    a = [rushlight.ones(2, requires_grad=True), rushlight.ones(3, requires_grad=True)]
    sum(v.sum() for v in rushlight._foreach_mul(a, [2.0, 3.0])).backward()
    assert a[0].grad.tolist() == [2, 2] and a[1].grad.tolist() == [3, 3, 3]


def test_in_one_graph():
    def step(a, b):
        rushlight._foreach_add_(a, b, alpha=-0.5)
        return rushlight._foreach_mul(a, [2.0, 3.0])

    a, b = lists(rushlight)
    wanted = step([v.clone() for v in a], b)
    found = rushlight.compile(step, fullgraph=True)(a, b)
    assert [v.tolist() for v in found] == [v.tolist() for v in wanted] and [(2 * a[0]).tolist(),
                                                                            (3 * a[1]).tolist()] == [
                                                                                v.tolist() for v in wanted]
