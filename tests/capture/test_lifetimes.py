"""Tensors go as soon as nothing of the program holds them: nothing in between waits for the collector of cycles."""
import collections
import gc
import weakref

import pytest

import rushlight as torch
from rushlight._src.capture import backends, bytecode
from rushlight.utils import _pytree as pytree


def steps(backend):
    """An optimizer's step, compiled: gradients."""
    layer = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adadelta(layer.parameters())
    step = torch.compile(lambda: optimizer.step(), backend=backend)

    def run():
        layer(torch.ones(4)).sum().backward()
        step()
        gone = weakref.ref(layer.weight.grad)
        optimizer.zero_grad(set_to_none=True)
        return gone
    return run


def calls(function):
    def run():
        x = torch.ones(4)
        function(x)
        return weakref.ref(x)
    return run


CASES = {
    "step": lambda: steps("eager"), "compiled step": lambda: steps("rushlight"),
    "eager backend": lambda: calls(torch.compile(lambda x: torch.cat([x, x.sin()]), backend="eager")),
    "compiled": lambda: calls(torch.compile(lambda x: x.sin() + 1)),
    "tree_map": lambda: calls(lambda x: pytree.tree_map(lambda v: v + 1, {"a": [x, (x,)]})),
    "tree_flatten": lambda: calls(lambda x: pytree.tree_unflatten(*pytree.tree_flatten([x, {"b": x}]))),
    "paths": lambda: calls(lambda x: pytree.tree_flatten_with_path([x, {"b": x}])),
    "vmap": lambda: calls(torch.vmap(lambda x: x * 2)), "grad": lambda: calls(torch.func.grad(lambda x: (x * x).sum())),
    "list of tensors": lambda: calls(lambda x: torch.stack([x, x])),
    "functional_call": lambda: calls(lambda x: torch.func.functional_call(torch.nn.Linear(4, 4),
                                                                          {"weight": x.expand(4, 4)}, torch.ones(4)))}


@pytest.mark.parametrize("name", CASES)
def test_nothing_waits_for_the_collector(name):
    run = CASES[name]()
    run(), run()  # captured, planned
    gc.collect()
    gc.disable()
    try:
        gone = run()
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("backend", ["eager", "rushlight"])
@pytest.mark.parametrize("kind", ["Adam", "Adadelta", "SGD"])
def test_state_goes_with_its_optimizer(kind, backend):
    layer = torch.nn.Linear(4, 4)
    held = [getattr(torch.optim, kind)(layer.parameters(), lr=0.1, **{"momentum": 0.9} if kind == "SGD" else {})]

    def train():
        held[0].zero_grad()
        layer(torch.ones(4)).sum().backward()
        held[0].step()

    step = torch.compile(train, backend=backend)
    for _ in range(3):
        step()
    entry, = step.owner.entries.values()
    assert entry.segments
    gone = [weakref.ref(held[0]),
            *(weakref.ref(v) for state in held[0].state.values() for v in state.values()
              if isinstance(v, torch.Tensor))]
    gc.collect()
    gc.disable()
    try:
        held.clear()
        assert [r() for r in gone] == [None] * len(gone)
        assert not entry.segments or not any(segment.ends for segment in entry.segments)
    finally:
        gc.enable()
    held.append(torch.optim.SGD(layer.parameters(), lr=0.1))  # another in its place is captured anew
    before = layer.weight.detach().clone()
    step()
    assert torch.allclose(layer.weight, before - 0.1)


def module_alone(function, *modules):
    """References to modules, and to a parameter of each, that a compiled function was given."""
    compiled = torch.compile(function, backend="eager")
    compiled(list(modules), torch.ones(2, 4)).sum().backward()
    return compiled, [weakref.ref(m) for m in modules] + [weakref.ref(m.weight) for m in modules]


def test_compiled_functions_keep_no_module_alive():
    def through(modules, x):
        for module in modules:
            x = module(x)
        return x
    compiled, gone = module_alone(through, torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    gc.collect()
    assert [ref() is None for ref in gone] == [True] * 4
    fresh = torch.nn.Linear(4, 4)
    assert torch.equal(compiled([fresh], torch.ones(2, 4)), fresh(torch.ones(2, 4)))


def test_a_module_that_was_replaced_goes():
    class Owner:
        layer = torch.nn.Linear(4, 4)
    compiled = torch.compile(lambda x: Owner.layer(x), backend="eager")
    x = torch.ones(2, 4)
    compiled(x)
    gone, Owner.layer = weakref.ref(Owner.layer), torch.nn.Linear(4, 4)
    assert torch.equal(compiled(x), Owner.layer(x))
    gc.collect()
    assert gone() is None


def test_arguments_of_the_first_call_wait_for_nothing():
    gc.disable()
    try:
        assert calls(torch.compile(lambda x: x + x, backend="eager"))()() is None
    finally:
        gc.enable()


def compile_and_call(number):
    """A compiled function of its own code and graph, after a call."""
    space = {}
    exec(f"def fresh(x):\n    return (x + {number}).relu()", space)
    compiled = torch.compile(space["fresh"])
    compiled(torch.ones(2))
    return compiled


def test_dropped_functions_leave_a_bounded_number_of_operators(monkeypatch):
    operators = backends.operators
    operators.clear()
    monkeypatch.setattr(operators, "last", collections.deque(maxlen=3))
    kept = [compile_and_call(number) for number in range(2)]
    for number in range(2, 9):
        compile_and_call(number)
    gc.collect()
    assert len(operators) == 2 + 3
    assert sum(code.co_name == "fresh" for code in list(bytecode._listings)) == 2
    assert compile_and_call(0)(torch.ones(2)).tolist() == kept[0](torch.ones(2)).tolist() == [1.0, 1.0]
    gc.collect()
    assert len(operators) == 2 + 3  # the graph of a function that lives is known
