"""Custom functions and hooks under transforms of ``torch.func``, beside PyTorch."""
import pytest
import torch as judge

import rushlight as torch

BOTH = [judge, torch]


def functions(t):
    """(a function with a rule for vmap that notes what it was given, its notes, one whose rule is generated)."""
    noted = []

    class Own(t.autograd.Function):
        @staticmethod
        def forward(x, pair, scale):
            return x * pair[0] + pair[1] * scale["by"]

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[1][0])

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0], None, None

        @staticmethod
        def vmap(info, in_dims, x, pair, scale):
            noted.append((in_dims, tuple(x.shape), [tuple(p.shape) for p in pair]))
            return Own.apply(x, pair, scale), 0

    class Generated(Own):
        generate_vmap_rule = True
        vmap = t.autograd.Function.vmap

    return Own, noted, Generated


def mapped(t, own):
    own_rule, noted, generated = functions(t)
    function = own_rule if own else generated
    x, y, z = (t.arange(3.0) + k for k in range(3))
    dims = (0, [0, 0], None), (0, [None, 0], None), (None, [0, None], None)
    results = []
    for x_dim, pair_dims, _ in dims:
        pair = [p if d == 0 else p[0] for p, d in zip((y, z), pair_dims)]
        call = t.func.vmap(lambda x, pair: function.apply(x, pair, {"by": 2.0}), (x_dim, pair_dims))
        results.append(call(x if x_dim == 0 else x[1], pair).tolist())
    return results, noted


@pytest.mark.parametrize("own", [True, False])
def test_examples_in_lists_are_mapped_over(own):
    results, noted = mapped(torch, own)
    wanted, wanted_noted = mapped(judge, True)
    assert results == wanted
    assert noted == (wanted_noted if own else [])


def test_gradients_pass_a_generated_rule_beside_a_list():
    found = []
    for t in BOTH:
        function = functions(t)[2]
        x, y = t.arange(3.0), t.arange(3.0) + 1
        gradient = t.func.vmap(t.func.grad(lambda x, y: function.apply(x, [y, y], {"by": 1.0})))
        if t is judge:
            gradient = t.func.vmap(t.func.grad(lambda x, y: x * y + y))
        found.append(gradient(x, y).tolist())
    assert found[0] == found[1]


TRANSFORMS = [lambda t, f: t.func.grad(f), lambda t, f: t.func.jacrev(f), lambda t, f: t.func.hessian(f),
              lambda t, f: lambda x: t.func.vjp(f, x)[1](t.tensor(1.0)), lambda t, f: t.func.vmap(t.func.grad(f))]


@pytest.mark.parametrize("t", BOTH)
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_hooks_on_saved_tensors_are_refused_under_reverse_transforms(t, inside, transform):
    """They would not be called: what a reverse transform keeps passes no hook."""
    hooks = t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)

    def plain(x):
        return (x.sin() * x).sum()

    def hooked(x):
        with hooks:
            return plain(x)

    x = t.arange(6.0).reshape(2, 3)
    with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        if inside:
            transform(t, hooked)(x)
        else:
            with hooks:
                transform(t, plain)(x)
    with hooks:  # nothing is left refused
        t.func.jacfwd(plain)(x)


@pytest.mark.parametrize("t", BOTH)
def test_generators_return_themselves(t):
    generator = t.Generator()
    assert generator.set_state(generator.get_state()) is generator is generator.manual_seed(2)


def returning(t, save, **rules):
    """A function that returns its argument, with a context that ``save`` fills."""
    return type("Returning", (t.autograd.Function,), {name: staticmethod(rule) for name, rule in {
        "forward": lambda x: x, "setup_context": save, "backward": lambda ctx, grad: grad * 2,
        "jvp": lambda ctx, tangent: tangent.view_as(tangent), **rules}.items()})


SAVED = {
    "the argument": lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    "the output": lambda ctx, inputs, output: ctx.save_for_backward(output),
    "for jvp": lambda ctx, inputs, output: ctx.save_for_forward(output),
    "nothing": lambda ctx, inputs, output: None,
    "a dirty one": lambda ctx, inputs, output: (ctx.mark_dirty(inputs[0]), ctx.save_for_backward(output)),
    "a constant one": lambda ctx, inputs, output: (ctx.mark_non_differentiable(output), ctx.save_for_backward(output)),
}
CALLS = {
    "eager": lambda t, f: f(t.ones(3).requires_grad_().clone()).sum().backward(),
    "without gradient": lambda t, f: f(t.ones(3)).tolist(),
    "grad": lambda t, f: t.func.grad(lambda x: f(x.clone()).sum())(t.ones(3)).tolist(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("saved", SAVED)
def test_arguments_that_are_returned_cannot_be_saved(saved, call):
    texts = []
    for t in BOTH:
        try:
            texts.append(CALLS[call](t, returning(t, SAVED[saved]).apply))
        except RuntimeError as error:
            texts.append(str(error)[:40])
    assert texts[0] == texts[1]


RETURNS = {
    "an output alone": lambda x: x, "three": lambda x: (x, 0, 0), "a list": lambda x: [x, 0],
    "a dimension": lambda x: (x, 0), "none": lambda x: (x[0], None), "one in a tuple": lambda x: (x, (0,)),
    "too few": lambda x: ((x, x), (0,)), "two": lambda x: ((x, x[0]), (0, None)), "for all": lambda x: ((x, x), 0),
    "a list of them": lambda x: ([x, x], [0, 0]), "another kind": lambda x: ([x, x], (0, 0)),
}


@pytest.mark.parametrize("name", RETURNS)
def test_rules_for_vmap_return_an_output_and_its_dimensions(name):
    seen = []
    for t in BOTH:
        function = returning(t, SAVED["nothing"], vmap=lambda info, in_dims, x: RETURNS[name](x + 1))
        try:
            found = t.vmap(function.apply)(t.ones(2, 3))
            seen.append([one.tolist() for one in (found if isinstance(found, (tuple, list)) else (found,))])
        except RuntimeError as error:
            seen.append("two returns" if "to have two returns" in str(error) else "an incompatible" in str(error))
    assert seen[0] == seen[1]
