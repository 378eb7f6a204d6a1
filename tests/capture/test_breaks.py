"""Graph breaks: code before and after is compiled, in nested calls, loops and blocks; and what has no break at all."""
import sys

import pytest

import rushlight as torch
from rushlight.compiler import disable, graph_break

from .compare import same


@disable
def say(*values, **options):
    print(*values, **options)


@disable
def failing(x):
    raise ValueError(f"boom {x}")


@disable
def visible_error():
    return sys.exc_info()[0]


class Logging:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(f"exit {kind.__name__ if kind else None}")
        return kind is ValueError


CASES = {}


def case(*codes):
    def enter(function):
        CASES[function.__name__] = function, codes
        return function
    return enter


@case("RB006")
def printing(x):
    y = x + 1
    say("y", y)
    return y * 2


@case("RB006")
def in_no_grad_block(x):
    with torch.no_grad():
        y = x + 1
        say("inside", torch.is_grad_enabled())
        z = y * 2
    return z + (1 if torch.is_grad_enabled() else 100)


@case("RB006")
def in_a_callee(x):
    def helper(x, n):
        y = x + n
        say("helper", n)
        return y * n

    a = x * 2
    b = a + helper(a, 3) * 2
    return b + 1


@case("RB006")
def in_a_loop(x):
    acc = []
    for i, v in enumerate([1, 2, 3]):
        x = x + v
        if i == 1:
            say("mid", i)
        acc.append(x)
    return acc, x


@case("RB006")
def many_in_a_loop(x):
    for i in range(300):
        say("", end="")
    return x + i


@case("RB002")
def on_data(x):
    n = 0
    while x.sum() < 100:
        x = x * 2 + 1
        n += 1
    return x, n


@case("RB002")
def on_data_in_expressions(x):
    return x + 1, x * (2 if x.sum() > 0
                       else 3), [x - 1, x] if x.mean() > 5 else None, x if x.sum() > -100 and n_is_three() else x * 0


def n_is_three():
    return True


@case()
def item(x):
    v = x.sum().item()
    return x * v, f"{v:.2f}", x.tolist(), float(x[0])


@case("RB006")
def errors_in_a_block(x):
    out = []
    for i in range(3):
        try:
            y = x + i
            if i == 1:
                failing(i)
            out.append(y)
        except (ValueError, KeyError) as e:
            out.append(str(e))
        finally:
            out.append(y * 0)
    return out


@case("RB006")
def user_context(x):
    log = []
    with Logging(log):
        x = x + 1
        failing(3)
        x = x + 1000
    with Logging(log):
        x = x * 2
    return x, log


@case("RB006")
def new_objects(x):
    class_ = Logging([x])
    class_.extra = x + 1
    say(len(class_.log))
    return class_.log[0] + class_.extra


@case("RB006")
def aliases(x):
    a = [x] * 2
    a[0] = x + 1
    b = a
    b.append(say("", end=""))
    return a is b, a


@case("RB006")
def nested_in_literals(x):
    return [x, [say("a") or x + 1, (x * 2, say("b"))], {"k": say("c")}]


@case("RB006")
def finally_and_return(x):
    for i in range(2):
        try:
            say("try", i)
            if i:
                return x + i
        finally:
            say("finally", i)


@case("RB006")
def closure_over_a_break(x):
    a = 1

    def inner(y):
        nonlocal a
        a += 1
        say("in", a)
        return y * a

    r = inner(x) + inner(x)
    return r, a


@case("RB006")
def reraise_after_a_break(x):
    try:
        failing(1)
    except ValueError:
        say("", end="")
        try:
            raise
        except ValueError as e:
            return "reraised", str(e)


@case()
def error_seen_from_a_callee(x):
    try:
        raise ValueError("a")
    except ValueError:
        return visible_error(), x


@case("RB008")
def own_frame(x):
    y = x + 1
    return sorted(locals()), y


@case("RB001")
def class_body(x):
    class K:
        z = 5

        def m(self):
            return self.z + x

    return K().m()


@case("RB010")
def generator_with_a_break(x):
    def items():
        yield x
        say("between")
        yield x + 1

    return [v * 2 for v in items()]


@case("RB006")
def shared_iterator(x):
    out, it = [], iter([1, 2, 3])
    for a in it:
        out.append(a)
        if a == 1:
            next(it)
            say("", end="")
    return out


@case("RB013")
def deep_recursion(x):
    def go(n, y):
        return y if n == 0 else go(n - 1, y + 1)

    return go(200, x)


@case("RB006")
def asked_for(x):
    y = x + 1
    graph_break()
    return y * 2


@case("RB007")
def shape_error(x):
    y = x + 1
    try:
        return y @ torch.ones(7, 2)
    except RuntimeError as error:
        return str(error), y


@case("RB012", "RB007")
def size_depends_on_data(x):
    return x[x > 0] + x[x <= 0][:2], torch.nonzero(x > 0)


@pytest.mark.parametrize("name", CASES)
def test_break(name):
    function, codes = CASES[name]
    stats = same(function, torch.arange(4.0) - 1.5)
    found = {b.code for b in stats.breaks}
    assert not codes or found & set(codes), [str(b) for b in stats.breaks]


def test_segments_are_reused():
    stats = same(many_in_a_loop, torch.ones(2))
    assert stats.segments <= 6


def test_breaks_tell_line_reason_and_remedy():
    stats = same(printing, torch.ones(2))
    (found,) = stats.breaks
    line = printing.__code__.co_firstlineno + 3
    assert found.file == __file__ and found.line == line and "say" in found.reason and found.remedy
    assert str(found).startswith("RB006") and f":{line}" in str(found)


def test_fullgraph_refuses_breaks():
    with pytest.raises(RuntimeError, match="RB006.*say"):
        torch.compile(printing, fullgraph=True)(torch.ones(2))
    assert torch.equal(torch.compile(lambda x: x + 1, fullgraph=True)(torch.ones(2)), torch.full((2,), 2.0))


def test_every_reason_has_a_remedy_and_a_page():
    from pathlib import Path

    from rushlight._src.capture.errors import REASONS

    page = (Path(__file__).resolve().parents[2] / "docs" / "capture.md").read_text()
    for code, (reason, remedy) in REASONS.items():
        assert reason and remedy.endswith(".") and code in page


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("change", ["before", "after", "shrunk", "none"])
@pytest.mark.parametrize("own", [False, True])
def test_an_iterator_of_a_list_that_changes_goes_on_where_it_stood(turned, steps, change, own):
    def walk(x, items):
        items = [1, 2, 3] if own else items
        if change == "before":
            items.append(4)
        it = reversed(items) if turned else iter(items)
        seen = [next(it, None) for _ in range(steps)]
        if change == "after":
            items.append(5)
            seen.append(next(it, None))
        if change == "shrunk":
            del items[1:]
        graph_break()
        items.append(6)
        return x + 1, seen, list(it), items

    compiled = torch.compile(walk)
    for _ in range(2):
        _, *wanted = walk(torch.ones(2), [1, 2, 3])
        _, *got = compiled(torch.ones(2), [1, 2, 3])
        assert got == wanted


DATA_DEPENDENT = {
    "a branch": lambda x: x + 1 if x.sum() > 0 else x - 1,
    "a number": lambda x: x + 1 if x[0].item() > 0 else x - 1,
    "a size": lambda x: x.cos() if x.nonzero().shape[0] > 2 else x.sin(),
    "a key": lambda x: {1: x}[int(x[0])],
}


@pytest.mark.parametrize("name", DATA_DEPENDENT)
def test_what_data_decide_is_an_error_of_its_own_in_one_graph(name):
    """UserError and GuardOnDataDependentSymNode, by which programs tell it from code that is not modelled."""
    from rushlight.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
    for kind in (torch._dynamo.exc.UserError, GuardOnDataDependentSymNode, torch._dynamo.exc.Unsupported):
        with pytest.raises(kind, match="Could not guard on data-dependent expression"):
            torch.compile(DATA_DEPENDENT[name], fullgraph=True)(torch.tensor([1.0, 2.0]))
    with pytest.raises(torch._dynamo.exc.Unsupported) as other:
        torch.compile(lambda x: [x + 1, torch._dynamo.graph_break()], fullgraph=True)(torch.ones(2))
    assert not isinstance(other.value, torch._dynamo.exc.UserError)
