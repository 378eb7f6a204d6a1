"""Functions: arguments, closures, decorators, partials, recursion, builtins that call back."""
import functools
import math
import operator

import rushlight as torch
import rushlight.nn.functional as F

from .table import case

COUNT = 0
TABLE = {"scale": 3}


@case()
def defaults_and_keywords(x):
    def f(a, b=2, *, c=3, d):
        return a * b + c - d

    return f(x, d=1), f(x, 5, d=2, c=1), f(b=1, a=x, d=0)


@case()
def positional_only(x):
    def f(a, /, b):
        return a - b

    return f(x, b=1), f(x, 2)


@case()
def star_arguments(x):
    def f(*args, **kwargs):
        return sum(args) + kwargs.get("k", 0), len(args), sorted(kwargs)

    return f(x, 1, 2), f(x, k=x, z=1), f(*[x, 1], **{"k": 4})


@case()
def star_and_named(x):
    def f(a, *rest, k=1, **more):
        return a * k + len(rest) + len(more)

    return f(x), f(x, 1, 2, k=3, z=4)


@case(breaks="RB007")
def missing_argument(x):
    def f(a, b):
        return a

    return f(x)


@case(breaks="RB007")
def unexpected_keyword(x):
    def f(a):
        return a

    return f(x, q=1)


@case(breaks="RB007")
def too_many_arguments(x):
    return (lambda a: a)(x, 1)


@case(breaks="RB007")
def wrong_call_caught(x):
    try:
        (lambda a: a)()
    except TypeError as error:
        return x + 1, "argument" in str(error)


@case()
def mutable_default(x):
    def f(v, seen=[]):
        seen.append(v)
        return len(seen)

    return f(1), f(2), x


def remembers(v, seen=[]):  # noqa: B006
    seen.append(v)
    return len(seen)


@case()
def mutable_default_outside(x):
    remembers.__defaults__[0].clear()
    return remembers(1), remembers(2), x


@case()
def closure_read(x):
    k = 3
    return (lambda v: v * k)(x)


@case()
def closure_written(x):
    n = 0

    def bump():
        nonlocal n
        n += 1
        return n

    return bump() + bump(), n, x


@case()
def closures_in_a_loop_share(x):
    fs = []
    for i in range(3):
        fs.append(lambda: i)
    return [f() for f in fs], x


@case()
def closures_with_defaults(x):
    return [f(x) for f in [lambda v, i=i: v * i for i in range(3)]]


@case()
def counter_factory(x):
    def make():
        count = [0]

        def bump(by=1):
            count[0] += by
            return count[0]

        return bump

    a, b = make(), make()
    return a(), a(5), b(), x


@case()
def closure_returned(x):
    k = 2

    def scaled(v):
        return v * k

    return scaled, x


@case()
def function_with_attributes(x):
    def f():
        f.calls = getattr(f, "calls", 0) + 1
        return f.calls

    f()
    return f(), f.__name__, x


def outer_cell():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x + count

    return f


@case(given=lambda: (outer_cell(),))
def closure_from_outside_written(x, f):
    return f(x), f(x)


@case()
def global_written(x):
    global COUNT
    COUNT = 5
    COUNT += 1
    return x * COUNT


@case()
def global_container_changed(x):
    TABLE["scale"] = 4
    TABLE["new"] = 1
    found = x * TABLE["scale"] + len(TABLE)
    TABLE["scale"] = 3
    del TABLE["new"]
    return found


@case()
def recursion(x):
    def power(v, n):
        return v if n == 1 else v * power(v, n - 1)

    return power(x, 5)


@case()
def mutual_recursion(x):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    return even(6), odd(4), x


@case()
def recursion_over_trees(x):
    def total(tree):
        return sum(total(t) for t in tree) if isinstance(tree, list) else tree

    return total([x, [x + 1, [x * 2]]])


def logged(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        run.calls = 1
        return function(*args, **kwargs) + 1
    return run


@logged
def decorated(x, k=2):
    return x * k


@case()
def decorator(x):
    return decorated(x), decorated(x, k=3), decorated.__name__


def repeated(times):
    def wrap(f):
        def run(x):
            for _ in range(times):
                x = f(x)
            return x
        return run
    return wrap


@case()
def decorator_with_argument(x):
    @repeated(3)
    def add(v):
        return v + 2

    return add(x)


@case()
def partial_made(x):
    f = functools.partial(F.leaky_relu, negative_slope=0.3)
    g = functools.partial(lambda a, b, c: a - b + c, x, c=2)
    return f(x), g(b=1), g.func(1, 2, 3), g.keywords


@case(given=lambda: (functools.partial(torch.add, alpha=2),))
def partial_outside(x, f):
    return f(x, x)


@case()
def partial_of_partial(x):
    f = functools.partial(functools.partial(lambda a, b, c: a * b - c, x), 2)
    return f(1)


@functools.lru_cache
def cached_number(n):
    return n * 2


@case()
def lru_cache(x):
    return x * cached_number(4)


@functools.singledispatch
def kind(v):
    return "other"


@case()
def reduce_and_operator(x):
    return functools.reduce(operator.add, [x, 1, 2]), functools.reduce(lambda a, b: a * b, [1, 2, 3],
                                                                       10), operator.itemgetter(1)([x, 5]), \
        operator.attrgetter("ndim")(x), operator.methodcaller("sum")(x)


@case()
def lambda_variants(x):
    return (lambda: 1)(), (lambda *a, **k: (a, k))(1, z=x), (lambda a, b=x: a + b)(1)


@case()
def any_all(x):
    return any([0, 1]), all([]), all(v for v in (1, 2)), any(isinstance(v, torch.Tensor) for v in (1, x))


@case()
def min_max_sum(x):
    return min(3, 1, 2), max([1, 5]), max("ab", "b", key=len), min([], default=7), sum([[1], [2]], []), sum(
        [x, x]), max(x.shape[0], 2), min({"b": 1, "a": 2})


@case()
def abs_round_divmod_pow(x):
    return abs(-3), round(2.567, 2), divmod(-7, 2), pow(2, 5), pow(3, 4, 5), abs(x)


@case()
def math_functions(x):
    return math.floor(2.7), math.ceil(2.1), math.prod([2, 3]), math.inf, math.isnan(0.0), math.gcd(4, 6), math.log2(
        8), x * math.tau


@case()
def sorted_by_key_tuple(x):
    items = [{"n": 2, "s": "b"}, {"n": 1, "s": "z"}, {"n": 2, "s": "a"}]
    return sorted(items, key=lambda d: (d["n"], d["s"])), x


@case()
def callable_and_identity(x):
    return callable(len), callable(3), callable(lambda: 1), id(x) == id(x), len is len, print is not None


@case()
def nested_functions_three_deep(x):
    a = 1

    def one():
        b = 2

        def two():
            c = 3

            def three():
                return a + b + c + x

            return three()

        return two()

    return one()


@case()
def shadowed_builtin(x):
    def len(v):  # noqa: A001
        return 42

    return len([1]), x


@case()
def import_inside(x):
    import math as m
    from collections import OrderedDict as O
    return x * m.pi, O(a=1)


@case(breaks="RB008")
def local_variables(x):
    y = x + 1
    return sorted(locals()), y


@case()
def annotations_and_docs(x):
    def f(a: int) -> int:
        """Doc."""
        return a

    return f(1), f.__doc__, x


@case()
def function_compared(x):
    f = len
    return f is len, f == len, {len: 1}[f], x


@case()
def conditional_function(x):
    f = torch.sin if x.dim() == 1 else torch.cos
    ops = {"relu": torch.relu, "neg": lambda v: -v}
    return f(x), ops["relu"](x), ops["neg"](x)


@case()
def apply_many(x):
    for f in (torch.sin, torch.Tensor.abs, lambda v: v + 1):
        x = f(x)
    return x


@case()
def method_as_value(x):
    add = x.add
    total = x.sum
    return add(1), total()


@case()
def str_method_as_value(x):
    return list(map(str.upper, ["a"])), list(map(len, ["ab"])), list(map(str, [1])), x
