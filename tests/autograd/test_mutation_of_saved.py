"""Tensors that are changed while backward steps need them: only what is changed is copied, as long as it is needed."""
import pytest

import rushlight as rl
from rushlight._src.core.op import OPS
from rushlight.autograd.graph import written_by
from rushlight.utils._python_dispatch import TorchDispatchMode


def test_only_what_is_changed_is_copied():
    with rl.autograd.graph.allow_mutation_on_saved_tensors() as block:
        a = rl.randn(2, 3, requires_grad=True)
        b = a.clone()
        first, second = (b**2).sum(), (b * 3).exp()
        assert not block.cloned
        b.sin_()
        copies = len(block.cloned)
        assert copies
        first.backward()
        assert rl.allclose(a.grad, 2 * a)
        del first
        assert len(block.cloned) == copies - 1
        second.sum().backward()
    assert rl.allclose(a.grad, 2 * a + 3 * (3 * a).exp())
    assert not block.cloned


@pytest.mark.parametrize("write", [lambda t: t[:1].mul_(10), lambda t: rl.sin(rl.ones(2, 3), out=t),
                                   lambda t: t.t().zero_(), lambda t: rl._foreach_add_([t], 1)])
def test_every_kind_of_write_is_seen(write):
    with rl.autograd.graph.allow_mutation_on_saved_tensors():
        a, b = rl.randn(2, 3, requires_grad=True), rl.randn(2, 3)
        before = b.clone()
        out = a * b
        with rl.no_grad():
            write(b)
        out.sum().backward()
        assert rl.equal(a.grad, before)


def test_a_block_is_not_left_before_its_backward_pass():
    with rl.autograd.graph.allow_mutation_on_saved_tensors():
        out = rl.randn(2, requires_grad=True).clone().pow(2).sum()
    with pytest.raises(AssertionError):
        out.backward()


def tensors(value):
    """The tensors of nested arguments."""
    if isinstance(value, rl.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [found for v in values for found in tensors(v)]


class Watching(TorchDispatchMode):
    """Notes the overloads without a schema that write into tensors which are not among ``written_by``."""

    def __init__(self):
        super().__init__()
        self.missed, self.seen = [], 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        told = {id(t) for t in tensors(written_by(func, args, kwargs or {}))}
        given = [(t, t._version) for t in tensors([args, kwargs or {}])]
        result = func(*args, **(kwargs or {}))
        changed = {id(t) for t, version in given if t._version != version}
        self.seen += len(changed)
        if func.schema is None and changed - told:
            self.missed.append(str(func))
        return result


OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "ASGD", "Rprop", "Adamax"]
SETTINGS = {"SGD": {"momentum": 0.5}, "Adam": {"amsgrad": True}, "RMSprop": {"momentum": 0.5, "centered": True}}


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_optimizers_write_is_told(name, foreach):
    params = [rl.ones(3, requires_grad=True), rl.ones(2, requires_grad=True)]
    optimizer = getattr(rl.optim, name)(params, lr=0.1, foreach=foreach, **SETTINGS.get(name, {}))
    for _ in range(2):
        for p in params:
            p.grad = rl.ones_like(p)
        with Watching() as watch:
            optimizer.step()
        assert watch.seen and not watch.missed


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_between_a_loss_and_its_backward_pass(name):
    x = rl.ones(3, requires_grad=True)
    with rl.autograd.graph.allow_mutation_on_saved_tensors():
        loss = (x * x).sum()
        x.grad = rl.ones(3)
        getattr(rl.optim, name)([x], lr=1.0).step()
        x.grad = None
        loss.backward()
    assert x.grad.tolist() == [2.0] * 3


def names_in(code) -> set:
    """The names that a code object and those within it refer to."""
    return set(code.co_names).union(*(names_in(c) for c in code.co_consts if hasattr(c, "co_names")))


def test_operators_that_store_declare_what_they_write():
    stored = [op for op in list(OPS.values()) if hasattr(op.body, "__code__") and not op.traits.get("composite")
              and names_in(op.body.__code__) & {"copy_", "store"}]
    assert len(stored) >= len(OPTIMIZERS) - 1
    for op in stored:
        assert op.traits.get("writes") or op.traits.get("into") is not None, op.name
        assert set(op.traits.get("writes", ())) <= set(op.signature.parameters), op.name
