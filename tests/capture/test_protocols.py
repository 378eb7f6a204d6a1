"""What builtins ask of objects: answers of special methods, iterators and absent attributes are as the interpreter has
them, compiled as plain."""
import itertools
import operator

import pytest

import rushlight as torch

ANSWERS = {"__bool__": [True, 1, 0.5, None], "__len__": [3, 0, -1, 2.0, True, "a", 10 ** 30],
           "__index__": [2, True, 1.5], "__int__": [7, True, 1.5], "__float__": [2.5, 1],
           "__str__": ["s", 5], "__repr__": ["r", b"x"], "__hash__": [1, 1.5, 10 ** 30], "__iter__": [iter([]), [1]],
           "__contains__": [5, 0, None],
           "__complex__": [1j, 1], "__getitem__": [5], "__reversed__": [[1]], "__eq__": [5, 0]}
USES = {"__bool__": ["not o", "1 if o else 2", "bool(o)", "o and 3"], "__len__": ["len(o)", "not o", "bool(o or 1)"],
        "__index__": ["[1, 2, 3][o]", "range(o)", "int(o)", "[0] * o", "bin(o)"],
        "__int__": ["int(o)"], "__float__": ["float(o)", "complex(o)"], "__str__": ["str(o)", "f'{o}'"],
        "__repr__": ["repr(o)", "str(o)", "f'{o!r}'"], "__hash__": ["hash(o)"],
        "__iter__": ["list(o)", "iter(o) is o", "[*o]", "1 in o"], "__contains__": ["5 in o", "5 not in o"],
        "__complex__": ["complex(o)"],
        "__getitem__": ["o[1]", "3 in [o[0]]"], "__reversed__": ["list(reversed(o))"],
        "__eq__": ["o == 1", "o != 1", "o in [1]"]}
CASES = [(name, k, use) for name, answers in ANSWERS.items() for k in range(len(answers)) for use in USES[name]]


def outcome(function, *given):
    try:
        return function(*given)
    except Exception as error:
        return type(error), str(error)


def function_of(text, **names):
    exec(text, names)
    return names["f"]


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.filterwarnings("ignore")
def test_answers_of_special_methods_are_checked(name):
    for answer in ANSWERS[name]:
        kind = type("Odd", (), {name: lambda self, *arguments: answer})
        for use in USES[name]:
            given, made = function_of(f"def f(o): return {use}"), function_of(
                f"def f():\n    o = kind()\n    return {use}", kind=kind)
            wanted = outcome(given, kind())
            assert outcome(torch.compile(given, backend="eager"),
                           kind()) == wanted == outcome(torch.compile(made, backend="eager")), (name, answer, use)


ITERATORS = ["zip([1], [x])", "enumerate([x])", "map(neg, [x])", "filter(None, [1, 0])", "iter([1])", "iter((1,))",
             "iter({1: 2})", "iter({1})", "iter('a')", "iter(range(2))",
             "reversed([1, 2])", "itertools.chain([1], [2])", "itertools.islice([1, 2, 3], 2)", "itertools.count(3)",
             "itertools.repeat(x)", "itertools.cycle([1])",
             "itertools.accumulate([1, 2], func=lambda a, b: a * b)", "itertools.pairwise([1, 2, 3])",
             "itertools.starmap(max, [(1, 2)])", "itertools.product([1], [2])",
             "itertools.permutations([1, 2])", "reversed({1: 2})", "iter({1: 2}.items())"]


def shown(value):
    return value.tolist() if isinstance(value, torch.Tensor) else [shown(v) for v in value] if isinstance(
        value, (list, tuple)) else value


@pytest.mark.parametrize("text", ITERATORS)
@pytest.mark.parametrize("before", [0, 1])
def test_iterators_of_builtins_are_theirs(text, before):
    """Inside and outside, begun and not: of the class that Python makes, at the place where the program left it."""
    f = function_of(
        f"def f(x):\n    made = {text}\n    first = [next(made) for _ in range({before})]\n    return type(made), "
        "first, made",
        itertools=itertools, neg=operator.neg)
    results = [run(torch.ones(2)) for run in (f, torch.compile(f, backend="eager"))]
    for kind, first, made in results:
        assert type(made) is kind
    assert results[0][0] is results[1][0]
    plain, compiled = ([shown(first), [shown(v) for v in itertools.islice(made, 3)]] for _, first, made in results)
    assert plain == compiled


def test_iterators_see_what_is_appended_meanwhile():
    def f(x):
        items, seen = [x, x + 1], []
        for k, (one, _) in enumerate(zip(items, itertools.count())):
            seen.append(one * k)
            if k < 2:
                items.append(one + 10)
        return seen

    assert shown(f(torch.ones(1))) == shown(torch.compile(f, backend="eager", fullgraph=True)(torch.ones(1)))


@pytest.mark.parametrize("text", ["enumerate(5)", "zip([1], 2)", "map(len, 3)", "itertools.islice([1], -1)",
                                  "itertools.islice([1], 'a')", "enumerate([], 1.5)",
                                  "itertools.permutations([1], -1)", "itertools.repeat(1, 'a')", "next([1])",
                                  "__import__('functools').reduce(max, [])"])
def test_what_builtins_refuse_at_once(text):
    f = function_of(f"def f(x):\n    made = {text}\n    return x", itertools=itertools)
    wanted = outcome(f, torch.ones(1))
    assert wanted[0] is not tuple and outcome(torch.compile(f, backend="eager"), torch.ones(1)) == wanted


class Plain:
    pass


class Asking(Plain):
    def __getattr__(self, name):
        if name == "z":
            return 7
        raise AttributeError(name)


class Failing:
    shown = property(lambda self: self.hidden)

    def __getattr__(self, name):
        return f"instead of {name}"


@pytest.mark.parametrize("kind", [Plain, Asking])
@pytest.mark.parametrize("change", ["setattr(o, 'z', 1)", "setattr(type(o), 'z', 2)", "setattr(type(o), 'y', 2)",
                                    "setattr(o, 'm', lambda: 5)"])
def test_absent_attributes_are_guarded(kind, change):
    cls = type("Made", (kind,), {"m": lambda self: 3})

    def f(x, o):
        return x + getattr(o, "z", 0) + 10 * hasattr(o, "z") + 100 * hasattr(o, "y") + o.m()

    compiled, o = torch.compile(f, backend="eager"), cls()
    assert compiled(torch.zeros(1), o).item() == f(torch.zeros(1), o).item()
    exec(change, {"o": o})
    assert compiled(torch.zeros(1), o).item() == f(torch.zeros(1), o).item()


def test_a_property_that_lacks_something_asks_getattr():
    def f(o):
        return o.shown

    assert torch.compile(f, backend="eager")(Failing()) == f(Failing())


def test_callable():
    def f(x, o):
        made = [[1], (1,), {}, Plain(), Failing(), len, f, Plain, lambda: 1, "a", x, iter([]), zip([]), x.sum]
        return [callable(v) for v in [*made, o, *o]]

    for given in ([1, len], (1, Plain()), {1: 2}):
        assert torch.compile(f, backend="eager")(torch.ones(1), given) == f(torch.ones(1), given)
