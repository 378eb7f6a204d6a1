"""Classes and modes that answer operators: ``__torch_function__``, ``__torch_dispatch__``, ``TorchFunctionMode``,
``TorchDispatchMode``."""
import pytest

import rushlight as torch
from rushlight.overrides import TorchFunctionMode, has_torch_function, handle_torch_function, is_tensor_like
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_map


class Noting(torch.Tensor):
    seen: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


class Plain(torch.Tensor):
    pass


class Wrapper(torch.Tensor):
    seen: list = []

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype,
                                                   requires_grad=inner.requires_grad)

    def __init__(self, inner):
        self.inner = inner.detach()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func))
        args, kwargs = tree_map(lambda a: a.inner if isinstance(a, Wrapper) else a, (args, kwargs or {}))
        return tree_map(lambda o: Wrapper(o) if isinstance(o, torch.Tensor) else o, func(*args, **kwargs))


def test_results_keep_the_class():
    x = torch.ones(3).as_subclass(Plain)
    assert type(x + 1) is Plain and type(torch.cat([x, torch.ones(2)])) is Plain and type(x[1:]) is Plain
    values, places = x.max(0)
    assert type(values) is Plain and type(places) is Plain
    assert type(torch.ones(2) + 1) is torch.Tensor


def test_the_class_sees_operators_and_members():
    x = torch.arange(4.0).as_subclass(Noting)
    Noting.seen.clear()
    assert (x + 1).shape == (4,) and torch.cat([x, x]).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert torch.add in Noting.seen and torch.cat in Noting.seen and torch.Tensor.shape.__get__ in Noting.seen


def test_history_survives_the_class():
    w = torch.ones(4, requires_grad=True)
    (torch.arange(4.0).as_subclass(Noting) * w).sum().backward()
    assert w.grad.tolist() == [0, 1, 2, 3]
    leaf = torch.ones(2, requires_grad=True)
    (leaf.as_subclass(Plain) * 3).sum().backward()
    assert leaf.grad.tolist() == [3, 3]


def test_a_class_that_declines_is_a_type_error():
    class Declines(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="NotImplemented"):
        torch.sin(torch.ones(1).as_subclass(Declines))


def test_other_objects_override_too():
    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, types

    assert torch.mul(torch.ones(2), Duck()) == ("mul", (Duck,))
    assert is_tensor_like(Duck()) and has_torch_function((Duck(),)) and not has_torch_function((1, torch.ones(1)))
    assert handle_torch_function(torch.sin, (Duck(),), Duck())[0] == "sin"


def test_subclasses_answer_before_their_bases():
    class Nearer(Noting):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "nearer"

    assert torch.add(torch.ones(2).as_subclass(Noting), torch.ones(2).as_subclass(Nearer)) == "nearer"


def test_a_mode_sees_functions_and_stands_aside_while_it_answers():
    class Names(TorchFunctionMode):
        def __init__(self):
            self.names = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Names() as mode:
        torch.ones(3) + torch.tensor(2)
        torch.nn.functional.gelu(torch.ones(2))
    assert mode.names == ["ones", "tensor", "add", "ones", "gelu"]
    torch.ones(1)
    assert len(mode.names) == 5


def test_modes_nest_and_leave_on_errors():
    class Doubling(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {})) * 2

    with Doubling(), Doubling():
        made = torch.ones(1)
        assert torch.ones(1).tolist() == [8.0] * 4  # a list is doubled, too
    assert made.tolist() == [8]  # the outer one sees the multiplication of the inner one too
    with pytest.raises(RuntimeError), Doubling():
        torch.ones(2) @ torch.ones(3)
    assert torch.ones(1).item() == 1


def test_dispatch_answers_below_autograd():
    x, w = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)
    Wrapper.seen.clear()
    b = Wrapper(w)
    loss = (Wrapper(x) @ b).relu().sum()
    loss.backward()
    (x @ w).relu().sum().backward()
    assert Wrapper.seen[:3] == ["aten.mm.default", "aten.relu.default", "aten.sum.default"]
    assert type(b.grad) is Wrapper and torch.allclose(b.grad.inner, w.grad)


def test_dispatch_keys_are_overloads():
    aten = torch.ops.aten
    handled = {aten.add.Tensor: "add", aten.sum.dim_IntList: "sum over dims", aten.transpose.int: "transpose"}
    seen = []

    class Keys(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(handled.get(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 3)
    with Keys():
        x + 1
        x.sum(1)
        x.transpose(0, 1)
        x.sum()
    assert seen == ["add", "sum over dims", "transpose", None]


def test_a_dispatch_mode_sees_the_backward():
    seen = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    layer = torch.nn.Linear(4, 2)
    with Names():
        layer(torch.ones(3, 4)).sum().backward()
    assert seen[1:5] == ["aten.t.default", "aten.addmm.default", "aten.sum.default", "aten.full.default"]
    assert not any(name.startswith("aten._") for name in seen) and len(seen) > 6
    assert layer.weight.grad.tolist() == [[3.0] * 4] * 2


def test_a_wrapper_has_no_memory_to_read():
    made = Wrapper(torch.ones(2))
    with pytest.raises(RuntimeError, match="no memory of its own"):
        made.numpy()
    with pytest.raises(RuntimeError, match="__torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(Plain, (2,))


def test_parameters_keep_an_overriding_class():
    made = torch.nn.Parameter(torch.ones(2).as_subclass(Plain))
    assert type(made) is Plain and isinstance(made, torch.nn.Parameter) and made.requires_grad
    module = torch.nn.Module()
    module.weight = made
    assert dict(module.named_parameters())["weight"] is made


def test_compiled_functions_let_modes_see():
    compiled = torch.compile(lambda x: x.sin() + 1)
    compiled(torch.ones(2))

    class Names(TorchFunctionMode):
        names: list = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Names() as mode:
        compiled(torch.ones(2))
    assert mode.names == ["ones", "sin", "add"]


def test_functions_of_another_library_refuse_our_tensors():
    theirs = pytest.importorskip("torch")
    for call in (lambda x: theirs.diag_embed(x), lambda x: theirs.add(x, x), lambda x: theirs.nn.functional.gelu(x)):
        with pytest.raises(TypeError, match="NotImplemented"):
            call(torch.ones(2))


READS = {"item": lambda x: x.item(), "float": float, "int": int, "bool": bool, "complex": complex,
         "index": lambda x: [1, 2, 3][x.long()], "tolist": lambda x: x.tolist(), "numpy": lambda x: x.numpy().tolist(),
         "len": len, "contains": lambda x: 2.0 in x, "format": lambda x: f"{x.sum():.1f}",
         "branch": lambda x: 1 if x > 1 else 0}


@pytest.mark.parametrize("name", READS)
def test_modes_see_what_is_read(name):
    seen = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", ""))
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.tensor([2.0])
    wanted = READS[name](x)
    with Functions():
        assert READS[name](x) == wanted
    special = {"item": "item", "tolist": "tolist", "numpy": "numpy", "branch": "__bool__"}
    assert special.get(name, f"__{name}__") in seen
    seen.clear()
    with Operators():
        assert READS[name](x) == wanted
    assert ("aten._local_scalar_dense.default" in seen) is (name not in ("tolist", "numpy", "len"))


def test_a_mode_that_declines_leaves_the_call_to_classes():
    class Declining(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    class Answering(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "the class" if func is torch.neg else NotImplemented

    with Declining():
        assert torch.neg(Answering()) == "the class"
        with pytest.raises(TypeError, match="Declining, Answering"):
            torch.sin(Answering())
        with pytest.raises(TypeError, match="Declining"):
            torch.sin(torch.ones(1))


def test_a_mode_is_told_no_classes_where_they_are_switched_off():
    told = []

    class Noted(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            told.append(types)
            return func(*args, **(kwargs or {})) if not types else NotImplemented

    with Noted():
        assert type(torch.neg(Plain())) is Plain
    assert told == [(Plain,), ()]


def test_the_function_of_a_mode_is_no_classmethod():
    class Wrong(TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with pytest.raises(RuntimeError, match="classmethod is not supported, please make it a plain method"), Wrong():
        torch.ones(1)


def test_every_overridable_function_has_a_name_and_an_answer():
    overrides, answers = torch.overrides, torch.overrides.get_testing_overrides()
    found = overrides.get_overridable_functions()
    for function in sum(found.values(), []):
        assert eval(overrides.resolve_name(function), {"torch": torch}) == function
        assert answers[function](1, other=2) == -1 if callable(function) else True
    assert torch.Tensor.shape.__get__ in found[torch.Tensor.shape] and torch.sin in found[torch]
    assert torch.Tensor.view in found[torch.Tensor] and torch.nn.functional.relu in found[torch.nn.functional]
    assert torch._C._VariableFunctions.sin is torch.sin


def test_modes_see_factories_of_other_layouts_and_what_reads_arguments():
    class Answering(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return -1

    with Answering():
        assert torch.sparse_coo_tensor(1, 1, (1, 1)) == torch.sparse_csr_tensor(1, 1, 1) == -1
        assert torch.sparse_compressed_tensor(1, 1, 1) == torch.sparse_bsr_tensor(1, 1, 1) == -1
        assert torch._C._nn._parse_to("cpu") == -1


def test_classes_answer_again_while_a_guard_lives():
    x = Plain(torch.ones(2))
    with torch._C.DisableTorchFunctionSubclass():
        guard = torch._C._EnableTorchFunction()
        assert type(x.sum()) is Plain
        del guard
        assert type(x.sum()) is torch.Tensor


def test_redispatching_skips_one_level():
    names = []

    class Noting(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return torch.overrides.redispatch_function(func, types, args, kwargs)

    class NotingMode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            with self:
                return torch.overrides.redispatch_function(func, types, args, kwargs)

    def scaled(a, b):
        if has_torch_function((a, b)):
            return handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    x = torch.ones(1).as_subclass(Noting)
    result = scaled(x, x)
    assert type(result) is torch.Tensor and names == ["scaled", "mul"]
    names.clear()
    x = torch.ones(1)
    with NotingMode():
        assert scaled(x, x).tolist() == [2]
    assert names[:3] == ["scaled", "mul", "add"]
