"""Guards of compiled code, and recompilation when they fail; dynamic numbers and sizes."""
import enum
import itertools
import random
import types
import warnings

import pytest

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F
from rushlight._src.capture.guards import Guard, GuardLines, function
from rushlight._src.capture.values import Source

SCALE = 2.0
TABLE = {"k": 3}


class Holder:
    def __init__(self):
        self.value, self.items = 1, [1, 2]

    factor = 5


def agrees(function, *calls, **options):
    """Segments used for these calls, whose results are those of the plain function."""
    compiled = torch.compile(function, **options)
    for args in calls:
        got, wanted = compiled(*args), function(*args)
        pairs = zip(got, wanted) if isinstance(wanted, tuple) else [(got, wanted)]
        for a, b in pairs:
            assert torch.allclose(a, b, atol=1e-5) if isinstance(b, torch.Tensor) else a == b and type(a) is type(b)
    return compiled.owner.stats.segments


def test_dtype_rank_class_and_gradient():
    x = torch.ones(3)
    assert agrees(lambda x: x + 1, (x,), (x.double(),), (x[None],), (x.clone().requires_grad_(),), (nn.Parameter(x),),
                  (x,)) == 5


def test_sizes_that_are_not_read_are_not_assumed():
    assert agrees(lambda x: F.relu(x).sum(-1) * 2, *[(torch.randn(n, 4),) for n in (2, 3, 5, 9)]) == 1


def test_size_one_broadcasts_and_is_assumed():
    assert agrees(lambda x, y: x + y, (torch.ones(3), torch.ones(3)), (torch.ones(3), torch.ones(1)),
                  (torch.ones(5), torch.ones(5))) == 2


def test_layout():
    assert agrees(lambda x: x.contiguous().view(-1), (torch.ones(2, 3),), (torch.ones(3, 2).t(),),
                  (torch.ones(4, 5),)) <= 3


def test_globals_and_closures_and_attributes():
    global SCALE
    holder, factor = Holder(), 2

    def f(x):
        return x * SCALE + TABLE["k"] + holder.value + len(holder.items) + factor + holder.factor

    compiled = torch.compile(f, dynamic=False)
    x = torch.ones(2)

    def check():
        assert torch.equal(compiled(x), f(x))

    check()
    SCALE = 3.0
    check()
    TABLE["k"] = 4
    check()
    holder.value = 7
    check()
    holder.items.append(3)
    check()
    factor = 9
    check()
    holder.factor = 6
    check()
    SCALE, TABLE["k"] = 2.0, 3
    assert compiled.owner.stats.segments == 7


def test_aliases():
    def f(a, b):
        return a is b, a + b

    x, y = torch.ones(2), torch.ones(2)
    assert agrees(f, (x, x), (x, y), (y, y)) == 2


def test_containers_of_tensors():
    def f(d):
        return sum(d["a"]) * d["b"]

    x = torch.ones(2)
    assert agrees(f, ({"a": [x, x], "b": 1},), ({"a": [x, x + 1], "b": 1},), ({"a": [x], "b": 1},),
                  ({"b": 1, "a": [x]},)) == 4


def test_strings_none_and_types():
    def f(x, mode=None):
        return x.sum() if mode is None else x.mean() if mode == "mean" else x * 1

    x = torch.ones(3)
    assert agrees(f, (x,), (x, "mean"), (x, "none"), (x, "mean"), (x, None)) == 3


def test_an_int_that_varies_becomes_a_symbol():
    def f(x, n):
        return x * n + (1 if n > 3 else 2), n * 2 + 1

    x = torch.ones(3)
    assert agrees(f, *[(x, n) for n in (2, 3, 4, 5, 6, 7, -1, 0)]) == 3


def test_a_float_that_varies():
    assert agrees(lambda x, s: x * s + s / 2, *[(torch.ones(3), n / 2) for n in range(1, 8)]) == 2


def test_an_int_that_counts_in_a_loop_with_breaks():
    def f(x):
        for k in range(20):
            x = x + k
            torch.compiler.graph_break()
        return x

    assert agrees(f, (torch.zeros(2),)) <= 6


def test_a_size_that_varies():
    assert agrees(lambda x: (x.view(x.size(0), -1) + x.shape[0], x.shape, len(x)),
                  *[(torch.randn(n, 3, 4),) for n in (2, 3, 4, 5)]) == 2
    assert agrees(lambda x: (x.reshape(x.shape[0] * x.shape[1], -1).t(), x.shape[0] // 2),
                  *[(torch.randn(n, n + 1, 4),) for n in (2, 3, 4, 5)]) == 2
    assert agrees(lambda x: x + torch.arange(x.shape[0])[:, None] + torch.zeros(x.shape[0], 1),
                  *[(torch.randn(n, 3),) for n in (2, 3, 4, 5)]) == 2


def test_sizes_of_derived_tensors_and_slices():
    table = torch.randn(20, 6)

    def f(tokens):
        x = table[tokens]
        b, t, c = x.shape
        return x.view(b, t, 2, c // 2).transpose(1, 2) + table[:t, :c // 2]

    assert agrees(f, *[(torch.randint(0, 20, size),) for size in ((2, 3), (3, 4), (5, 7), (2, 9))]) == 2


def test_decisions_on_sizes_are_guarded():
    def f(x):
        return x.sum() if x.shape[0] > 4 else x.mean()

    assert agrees(f, *[(torch.randn(n),) for n in (2, 3, 4, 7, 9)]) == 3


def test_dynamic_and_static_on_request():
    assert agrees(lambda x: x.view(-1, x.shape[0]), *[(torch.randn(n, 6),) for n in (2, 3, 4)], dynamic=True) == 1
    assert agrees(lambda x: x.view(-1, x.shape[0]), *[(torch.randn(n, 6),) for n in (2, 3, 4)], dynamic=False) == 3
    x = torch.randn(4, 6)
    torch._dynamo.mark_dynamic(x, 0)
    assert agrees(lambda x: x * x.shape[0], (x,), (torch.randn(5, 6),), (torch.randn(9, 6),)) == 1


def test_gradients_with_sizes_that_vary():
    compiled = torch.compile(lambda x: (x.view(x.shape[0] * 2, -1) ** 2).sum())
    for n in (2, 3, 5):
        x = torch.randn(n, 4, requires_grad=True)
        compiled(x).backward()
        assert torch.allclose(x.grad, 2 * x)
    assert compiled.owner.stats.segments == 2


def test_gradient_mode_is_guarded():
    compiled = torch.compile(lambda x: x * 2)
    x = torch.ones(2, requires_grad=True)
    assert compiled(x).requires_grad
    with torch.no_grad():
        assert not compiled(x).requires_grad
    assert compiled(x).requires_grad and compiled.owner.stats.segments == 2


def test_the_limit_warns_and_runs_uncompiled():
    compiled = torch.compile(lambda x, s: x if s == "never" else x + len(s))
    x = torch.zeros(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(12):
            assert torch.equal(compiled(x, "a" * k), x + k)
    assert compiled.owner.stats.segments == 8
    assert len(caught) == 1 and "mark_dynamic" in str(caught[0].message) and "s ==" in str(caught[0].message)


def test_recompilations_say_which_guard_failed(caplog):
    import logging

    compiled = torch.compile(lambda x, flag: x + 1 if flag else x)
    with caplog.at_level(logging.DEBUG, "rushlight.recompiles"):
        compiled(torch.ones(2), True)
        compiled(torch.ones(2), False)
    assert "flag is True" in caplog.text and __file__ in caplog.text


def test_epoch_does_not_move_by_calling():
    from rushlight._src.core.epoch import Epoch

    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    compiled = torch.compile(model)
    x = torch.randn(4, 2)
    compiled(x)
    before = Epoch.value
    compiled(x).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert Epoch.value == before


def test_one_code_object_many_modules():
    def f(module, x):
        y = module(x)
        torch.compiler.graph_break()
        return module(y)

    x = torch.randn(1, 2)
    compiled = torch.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(10):
            module = nn.Linear(2, 2)
            assert torch.allclose(compiled(module, x), f(module, x), atol=1e-6)


def test_nan_and_infinity_as_constants():
    assert agrees(lambda x, s: x.clamp(max=s), (torch.ones(2), float("inf")), (torch.ones(2), float("inf")),
                  dynamic=False) == 1
    compiled = torch.compile(lambda x, s: x + 1 if s == s else x, dynamic=False)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(1), float("nan")), torch.ones(1))
    assert compiled.owner.stats.segments == 1


def test_fail_on_recompile():
    compiled = torch.compile(lambda x, k: x + len(k))
    compiled(torch.ones(1), "a")
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(1), "a")
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            compiled(torch.ones(1), "b")
    with torch.compiler.set_stance("force_eager"):
        assert torch.equal(compiled(torch.ones(1), "ccc"), torch.full((1,), 4.0))
    assert compiled.owner.stats.segments == 1


def test_inputs_are_not_kept_alive():
    import gc
    import weakref

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    holder = Holder()
    compiled = torch.compile(lambda d, h: Scale.apply(d["x"]) + h.value)
    x = torch.ones(3, requires_grad=True)
    compiled({"x": x}, holder).sum().backward()
    gone = [weakref.ref(x), weakref.ref(holder)]
    del x, holder
    gc.collect()
    assert [r() for r in gone] == [None, None]


def test_facts_about_parameters_are_guarded():
    class Reading(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * self.w.shape[0] + (10 if self.w.requires_grad else 0)

    model = Reading()
    compiled = torch.compile(model)
    x = torch.ones(1)
    assert compiled(x) == 13
    model.w.requires_grad_(False)
    assert compiled(x) == 3
    model.w.data = torch.ones(5)
    assert compiled(x) == 5
    model.requires_grad_(True)
    assert compiled(x) == 15


def test_a_tensor_where_a_number_was():
    compiled = torch.compile(lambda x, weight: torch.lerp(x, x * 3, weight))
    x = torch.ones(3)
    for weight in (0.5, float("nan"), torch.tensor([0.0, 0.5, 1.0]), torch.tensor(0.25)):
        got, wanted = compiled(x, weight), torch.lerp(x, x * 3, weight)
        assert torch.equal(got, wanted) or bool(got.isnan().all() and wanted.isnan().all())


def test_zeros_of_both_signs():
    compiled = torch.compile(lambda x, zero: x / zero, dynamic=False)
    x = torch.ones(2)
    assert compiled(x, 0.0)[0] == float("inf") and compiled(x, -0.0)[0] == float("-inf")


def test_random_numbers_for_sizes_that_vary():
    compiled = torch.compile(lambda x: (torch.rand_like(x), torch.randn(x.shape[0], 2)))
    for rows in (3, 4, 5, 9):
        torch.manual_seed(rows)
        uniform, normal = compiled(torch.ones(rows, 3))
        torch.manual_seed(rows)
        assert torch.equal(uniform, torch.rand(rows, 3)) and torch.equal(normal, torch.randn(rows, 2))


def test_random_numbers_for_no_elements():
    assert torch.compile(lambda x: torch.rand_like(x))(torch.ones(0, 3)).shape == (0, 3)


def test_a_number_that_varies_is_compared_with_text():
    def f(x, n, seen):
        seen.append(n)
        return x + (n > "a")

    compiled, seen = torch.compile(f), []
    for n in (1, 2, 3):
        with pytest.raises(TypeError, match="'>' not supported between instances of 'int' and 'str'"):
            compiled(torch.ones(1), n, seen)
    assert seen == [1, 2, 3]
    equal = torch.compile(lambda x, n: (x, n == "a", n != None))  # noqa: E711
    assert [equal(torch.ones(1), n)[1:] for n in (1, 2)] == [(False, True)] * 2


class First(nn.Module):
    def forward(self, x):
        return x + 1


class Second(nn.Module):
    def forward(self, x):
        return x + 100


def follows(function, *changes):
    """Whether compiled code gives what the plain function gives after each of these changes."""
    compiled, x = torch.compile(function), torch.arange(1.0, 5.0)
    for change in (lambda: None, *changes):
        change()
        got, wanted = compiled(x), function(x)
        assert got.dtype is wanted.dtype and got.device is wanted.device and (got.is_meta
                                                                              or torch.equal(got, wanted)), change


def test_class_of_a_network():
    model = nn.Sequential(First())
    follows(model, lambda: setattr(model[0], "__class__", Second))


def test_forward_of_one_network():
    model = nn.Sequential(First())
    follows(model, lambda: setattr(model[0], "forward", lambda x: x * 7), lambda: delattr(model[0], "forward"))


def test_what_a_network_did_not_have():
    class Optional(nn.Module):
        def forward(self, x):
            return x * self.scale if hasattr(self, "scale") else x

    model = Optional()
    follows(model, lambda: model.register_buffer("scale", torch.tensor(3.0)), lambda: delattr(model, "scale"),
            lambda: setattr(model, "scale", 5))


def test_network_that_stores_in_its_own_way():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 2

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)

        def forward(self, x):
            return x * self.scale

    model = Own()
    follows(model, lambda: setattr(model, "scale", 3))


def test_code_of_a_function():
    def inner(x):
        return x + 1

    def other(x):
        return x - 1

    follows(lambda x: inner(x), lambda: setattr(inner, "__code__", other.__code__))


def test_functions_of_the_framework(monkeypatch):
    follows(lambda x: F.relu(x - 2) + torch.sin(x), lambda: monkeypatch.setattr(F, "relu", lambda x: x * 50),
            lambda: monkeypatch.setattr(torch, "sin", torch.cos), monkeypatch.undo)


def test_defaults_of_factories():
    try:
        follows(lambda x: torch.ones(4) * 0.5, lambda: torch.set_default_dtype(torch.float64),
                lambda: torch.set_default_dtype(torch.float32),
                lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None))
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


def test_settings_that_are_asked():
    before = torch.get_num_threads()
    try:
        follows(lambda x: x * torch.get_num_threads() + len(torch.get_float32_matmul_precision())
                + int(torch.are_deterministic_algorithms_enabled()),
                lambda: torch.set_num_threads(1), lambda: torch.set_num_threads(2),
                lambda: torch.set_float32_matmul_precision("medium"),
                lambda: torch.use_deterministic_algorithms(True))
    finally:
        torch.set_num_threads(before)
        torch.set_float32_matmul_precision("highest")
        torch.use_deterministic_algorithms(False)


def test_settings_do_not_break_the_graph():
    compiled = torch.compile(lambda x: x * (torch.cuda.device_count() + int(torch.distributed.is_initialized()) + 1),
                             fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2))


class Kind(enum.Enum):
    ADD = 1
    MULTIPLY = 2


def test_members_and_objects_by_identity():
    holder = Holder()
    holder.kind = holder.mark = Kind.ADD
    unset, other = object(), object()
    follows(lambda x: (x + 2 if holder.kind is Kind.ADD else x * 2) + (holder.mark is unset),
            lambda: setattr(holder, "kind", Kind.MULTIPLY),
            lambda: setattr(holder, "mark", other), lambda: setattr(holder, "mark", unset))


def test_operators_kept_in_containers():
    table = {"f": torch.sin, "g": torch.add}
    follows(lambda x: table["g"](table["f"](x), 2), lambda: table.update(f=torch.cos),
            lambda: table.update(g=torch.mul), lambda: table.update(f=lambda x: x * 3))


def test_generators_that_are_replaced():
    class Source:
        pass

    source = Source()
    source.generator = torch.Generator().manual_seed(1)
    compiled = torch.compile(lambda: torch.rand(3, generator=source.generator))
    first = compiled()
    source.generator = torch.Generator().manual_seed(2)
    assert torch.equal(compiled(), torch.rand(3, generator=torch.Generator()
                                              .manual_seed(2))) and not torch.equal(first, compiled())


def test_what_stands_for_a_tensor_hides_nothing_of_it():
    from rushlight._src.capture.fake import Fake
    hidden = [name for name, value in vars(Fake).items() if not name.startswith("_") and hasattr(torch.Tensor, name)
              and not callable(value) and not isinstance(value, property)]
    assert not hidden


def test_objects_as_keys():
    first, second = Holder(), Holder()
    table = {first: 1, second: 2}
    compiled = torch.compile(lambda x, key: x * table[key])
    assert [compiled(torch.ones(1), key).item() for key in (first, second, first)] == [1, 2, 1]


def test_flags_and_the_seed():
    flags = torch.backends.cudnn
    before = flags.benchmark
    try:
        follows(lambda x: x * (2 if torch.backends.cudnn.benchmark else 3) + torch.initial_seed(),
                lambda: setattr(flags, "benchmark", not before), lambda: torch.manual_seed(7))
    finally:
        flags.benchmark = before


def adder(value):
    return lambda x: x + value


def test_functions_made_anew_from_the_same_code_need_no_capture():
    def f(x, other, table):
        return other(x) * table["g"](x)

    compiled = torch.compile(f, backend="eager", fullgraph=True)
    for value in (2.0, 2.0, torch.ones(3), torch.full((3,), 4.0)):
        given = torch.ones(3), adder(value), {"g": lambda x: x + 1}
        assert torch.equal(compiled(*given), f(*given))
    assert len(compiled.owner.stats.graphs) == 2


def test_which_function_it_is_matters_where_it_is_asked():
    first = [adder(1), adder(1)]

    def f(x, other, known):
        return x + 1 if other is known[0] else x + 2 if other in known else x + {first[0]: 10}.get(other, 20)

    compiled = torch.compile(f, backend="eager")
    for given in ((first[0], first), (first[1], first), (adder(1), first), (first[0], [adder(1)]),
                  (adder(1), [adder(1)]), (first[0], first)):
        assert torch.equal(compiled(torch.ones(1), *given), f(torch.ones(1), *given))


def test_defaults_of_functions_are_guarded():
    def made(default):
        return lambda x, k=default: x * k

    compiled = torch.compile(lambda x, g: g(x), backend="eager")
    assert [compiled(torch.ones(1), made(k)).item() for k in (2, 3, 4.5, 2)] == [2, 3, 4.5, 2]
    g = made(5)
    assert compiled(torch.ones(1), g).item() == 5
    g.__defaults__ = (6,)
    assert compiled(torch.ones(1), g).item() == 6
    g.__code__ = (lambda x, k=1: x - k).__code__
    assert compiled(torch.ones(1), g).item() == -5


CHECKS = ("{0} == 1", "type({0}) is int and {0} < 2", "{0} is {1}", "{1} == 2 or {0} == 1", "not {0} or {1} == 1",
          "len(str({0})) == 1 and {1} != 3", "{0} == 2 or {1} == 1", "max({0}, {1}) < 3")


def holds(guards, values) -> bool:
    """Whether all checks hold, each evaluated by itself."""
    try:
        return all(eval(guard.check.format(*guard.sources), {"V": values}) for guard in guards)
    except (AttributeError, KeyError, IndexError, TypeError):
        return False


@pytest.mark.parametrize("seed", range(20))
def test_a_guard_function_is_the_conjunction_of_its_guards(seed):
    """Also where a check leaves one of its sources unread, which the next one reads."""
    draw = random.Random(seed)
    roots = [Source(None, f"V[{k}]") for k in range(2)]
    sources = [*roots, *(root.attribute("a") for root in roots), *(root.attribute("b").item("0") for root in roots),
               *(root.attribute("b").item("1") for root in roots)]
    guards = [Guard(check, tuple(draw.sample(sources[2:], 2)), "") for check in draw.choices(CHECKS, k=5)]
    guards = [Guard(g.check, g.sources if "{1}" in g.check else g.sources[:1], "") for g in guards]
    block = GuardLines()
    for guard in guards:
        block.require(guard)
    check = function(block.finish("True"), "V", {})
    for numbers in itertools.product((1, 2), repeat=len(sources) - 2):
        values = [types.SimpleNamespace(a=numbers[k], b=numbers[k + 2::2]) for k in range(2)]
        assert check(values) is holds(guards, values)
    del values[1].b
    assert check(values) is holds(guards, values)
    values[0] = 3
    assert check(values) is holds(guards, values)
