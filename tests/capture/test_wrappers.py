"""Classes with ``__torch_dispatch__`` that wrap tensors, in compiled functions: as uncompiled, in one graph."""
from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.utils._pytree as pytree
from rushlight._dynamo.testing import CompileCounter
from rushlight.utils._python_dispatch import return_and_correct_aliasing


class Pair(torch.Tensor):
    """Two tensors, each of which every operator computes with; ``tag`` is the context."""

    @staticmethod
    def __new__(cls, a, b, tag=0, size=None, stride=None):
        return torch.Tensor._make_wrapper_subclass(
            cls, a.size() if size is None else size, strides=a.stride() if stride is None else stride,
            storage_offset=a.storage_offset(), dtype=a.dtype, device=a.device, requires_grad=a.requires_grad)

    def __init__(self, a, b, tag=0, size=None, stride=None):
        self.a, self.b, self.tag = a, b, tag

    def __repr__(self):
        return f"Pair({self.a!r}, {self.b!r}, {self.tag})"

    def __tensor_flatten__(self):
        return ["a", "b"], {"tag": self.tag}

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Pair(inner["a"], inner["b"], context["tag"], size, stride)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        given = args, kwargs or {}
        tag = max(x.tag for x in pytree.tree_leaves(given) if isinstance(x, Pair))

        def half(name):
            args, kwargs = pytree.tree_map_only(Pair, lambda x: getattr(x, name), given)
            return pytree.tree_flatten(func(*args, **kwargs))

        (left, spec), (right, _) = half("a"), half("b")
        made = [cls(x, y, tag) if isinstance(x, torch.Tensor) else x for x, y in zip(left, right)]
        return return_and_correct_aliasing(func, args, kwargs or {}, pytree.tree_unflatten(made, spec))

    def total(self):
        return self.a + self.b


class Loose(Pair):
    """One whose context matters only by its parity."""

    @classmethod
    def __metadata_guard__(cls, before, now):
        return before["tag"] % 2 == now["tag"] % 2

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Loose(inner["a"], inner["b"], context["tag"], size, stride)


class Silent(torch.Tensor):
    """One that does not say what it wraps."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*[a.inner if isinstance(a, Silent) else a for a in args], **(kwargs or {}))


def pair(*shape, tag=0, cls=Pair):
    shape = shape or (2, 3)
    return cls(torch.arange(float(torch.Size(shape).numel())).view(shape), torch.full(shape, 0.5), tag)


def described(value):
    if isinstance(value, (tuple, list)):
        return list(map(described, value))
    if isinstance(value, Pair):
        return type(value).__name__, tuple(value.shape), value.tag, described(value.a), described(value.b)
    return value.tolist() if isinstance(value, torch.Tensor) else value


def doubled_in_place(x):
    x.mul_(2)
    return x


PROGRAMS = {
    "elementwise": lambda x: (x * x + 1).sin(),
    "beside a plain tensor": lambda x: torch.ones(2, 3) * 3 - x,
    "a composite": lambda x: torch.softmax(torch.nn.functional.linear(x, x), 1),
    "what it wraps": lambda x: x.a + x.b.exp(),
    "a method": lambda x: (x + 1).total(),
    "the context": lambda x: x * x.tag,
    "views": lambda x: x.view(-1).unsqueeze(0).expand(2, 6),
    "sizes": lambda x: (x.shape, x.size(1), x.dim(), x.view(x.shape[0] * 3) + len(x)),
    "classes": lambda x: (isinstance(x, Pair), type(x) is Pair, isinstance(x + 1, torch.Tensor), x.requires_grad),
    "as it is": lambda x: (x, x.a, x.clone()),
    "in place": doubled_in_place,
    "made there": lambda x: Pair(x.a.cos(), x.b, tag=7) * 2,
    "like it": lambda x: torch.zeros_like(x) + x.new_ones(2, 3),
    "lists": lambda x: torch.cat([x, x + 1]).sum(0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_they_give_uncompiled(name):
    program, backend = PROGRAMS[name], CompileCounter()
    mine, theirs = pair(tag=3), pair(tag=3)
    compiled = torch.compile(program, fullgraph=True, backend=backend)
    assert described(compiled(mine)) == described(program(theirs)) and described(mine) == described(theirs)
    assert backend.frame_count <= 1


def test_an_instance_within_another():
    x, y = Pair(pair(), pair(tag=2)), Pair(pair(), pair(tag=2))
    found = torch.compile(lambda x: (x * 2).sum(0), fullgraph=True)(x)
    assert described(found) == described((y * 2).sum(0))


def test_what_is_unchanged_comes_back_as_itself():
    x = pair()
    found, inner, written = torch.compile(lambda x: (x, x.b, x.add_(1)), fullgraph=True)(x)
    assert found is x and inner is x.b and written is x and described(x) == described(pair() + 1)


@pytest.mark.parametrize("cls, tags, graphs", [(Pair, (1, 1, 2), 2), (Loose, (1, 3, 5), 1), (Loose, (1, 2, 3), 2)])
def test_another_context_is_another_capture_where_it_matters(cls, tags, graphs):
    backend = CompileCounter()
    compiled = torch.compile(lambda x: x.sin(), backend=backend)
    for tag in tags:
        x = pair(tag=tag, cls=cls)
        assert described(compiled(x).a) == described(x.sin().a)
    assert backend.frame_count == graphs


def test_plain_tensors_and_other_inner_ones_are_other_captures():
    backend = CompileCounter()
    compiled = torch.compile(lambda x: x * 2, backend=backend)
    wide = Pair(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.float64))
    for x in (pair(), torch.ones(2, 3), wide, pair()):
        assert described(compiled(x)) == described(x * 2)
    assert backend.frame_count == 3


def test_sizes_vary():
    backend = CompileCounter()
    compiled = torch.compile(lambda x: x.sin() * x.shape[0], dynamic=True, fullgraph=True, backend=backend)
    for rows in (3, 4, 7):
        assert described(compiled(pair(rows, 2))) == described(pair(rows, 2).sin() * rows)
    assert backend.frame_count == 1


def test_parameters_of_modules():
    layer = torch.nn.Module()
    layer.weight = torch.nn.Parameter(pair(), requires_grad=False)
    x = torch.full((2, 3), 3.0)
    assert described(torch.compile(lambda x: x * layer.weight, fullgraph=True)(x)) == described(x * layer.weight)


# --- gradients --------------------------------------------------------------------------------------------------------
def leaf(*shape, **facts):
    return pair(*shape, **facts).requires_grad_()


def pulled(program, x, *others):
    """What a program gives, with the gradients of a backward pass from it."""
    result = program(x, *others)
    total = result.sum()
    (total.a + 2 * total.b if isinstance(total, Pair) and not total.requires_grad else total).backward()
    return described(result), [described(one.grad) for one in (x, *others)], result.requires_grad


class Tripled(torch.autograd.Function):
    """A function of instances whose derivative is not that of its operators."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * 5 + x


class Widened(Pair):
    """One whose gradients have another context, which they can be brought to."""

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Widened(inner["a"], inner["b"], context["tag"], size, stride)

    def __coerce_tangent_metadata__(self):
        return Widened(self.a, self.b, 9)

    def __coerce_same_metadata_as_tangent__(self, expected, expected_type=None):
        return Widened(self.a, self.b, expected["tag"])


DERIVED = {
    "elementwise": lambda x: (x * x + 1).sin(),
    "composites": lambda x: torch.softmax(torch.nn.functional.linear(x, x), 1),
    "views": lambda x: x.view(-1).unsqueeze(0).expand(2, 6) * x.reshape(6),
    "several results": lambda x: torch.cat(x.exp().chunk(3, 1), 0).max(1).values,
    "a function of its own": lambda x: Tripled.apply(x) * x,
    "detached": lambda x: x * x.detach() + x.sin().detach(),
    "unrecorded": lambda x: x * without_history(x),
}


def without_history(x):
    with torch.no_grad():
        return x.cos()


@pytest.mark.parametrize("name", DERIVED)
def test_gradients_are_those_of_uncompiled_programs(name):
    program, backend = DERIVED[name], CompileCounter()
    compiled = torch.compile(program, fullgraph=True, backend=backend)
    assert pulled(compiled, leaf(tag=2)) == pulled(program, leaf(tag=2))
    assert backend.frame_count == 1


def test_gradients_have_the_context_that_their_class_wants():
    x, y = leaf(cls=Widened), leaf(cls=Widened)
    for one, call in (x, torch.compile(DERIVED["elementwise"], fullgraph=True)), (y, DERIVED["elementwise"]):
        call(one).sum().backward()
    assert x.grad.tag == 9 and described(x.grad.a) == described(y.grad.a)


def test_gradients_beside_plain_tensors():
    def program(x, y):
        return (x * y).sin() + y

    compiled = torch.compile(program, fullgraph=True)
    assert pulled(compiled, leaf(), torch.full((3,), 0.3)) == pulled(program, leaf(), torch.full((3,), 0.3))


def test_gradients_at_several_sizes():
    compiled = torch.compile(lambda x: x.sin() * x, fullgraph=True, dynamic=True)
    for rows in (2, 3, 5):
        assert pulled(compiled, leaf(rows, 2)) == pulled(lambda x: x.sin() * x, leaf(rows, 2))


def test_gradients_of_another_context_are_an_error():
    with pytest.raises(RuntimeError, match="__coerce_same_metadata_as_tangent__"):
        torch.compile(lambda x, y: x * y, fullgraph=True)(leaf(), pair(tag=1)).sum().backward()


def test_parameters_that_are_instances_get_gradients():
    def loss(layer, x):
        return (layer.weight * x).exp()

    found = []
    for call in (loss, torch.compile(loss, fullgraph=True)):
        layer = torch.nn.Module()
        layer.weight = torch.nn.Parameter(pair())
        for _ in range(2):
            call(layer, pair()).sum().backward()
        found.append(described(layer.weight.grad))
    assert found[0] == found[1]


def test_guards_on_contexts_are_classmethods_of_two_arguments():
    class Wrong(Pair):
        __metadata_guard__ = classmethod(lambda cls, one: True)

    class Bare(Pair):
        def __metadata_guard__(self, now):
            return True

    for cls, words in (Wrong, "exactly two subclass metadata arguments"), (Bare, "must be a classmethod"):
        with pytest.raises(RuntimeError, match=words):
            torch.compile(lambda x: x + 1)(pair(cls=cls))


def test_what_does_not_say_what_it_wraps_runs_uncompiled():
    x = torch.Tensor._make_subclass(Silent, torch.ones(2))
    x.inner = torch.ones(2)
    assert torch.compile(lambda x: x * 2)(x).tolist() == [2, 2]
    with pytest.raises(torch._dynamo.exc.Unsupported, match="RB014"):
        torch.compile(lambda x: x * 2, fullgraph=True)(x)
