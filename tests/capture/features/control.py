"""Control flow: branches, loops, match, comprehensions, walrus, unpacking, truth."""
import itertools

import rushlight as torch

from .table import case


@case()
def branch_on_rank(x):
    return x + 1 if x.dim() == 1 else x - 1


@case()
def branch_on_dtype(x):
    if x.dtype is torch.float32:
        return x * 2
    return x


@case()
def nested_branches(x):
    if x.ndim > 0:
        if x.shape[0] > 100:
            return x
        elif x.shape[0] == 4:
            return x + 4
    return x - 1


@case()
def while_with_counter(x):
    n = 0
    while n < 4:
        x = x + n
        n += 1
    return x, n


@case()
def while_else(x):
    n = 3
    while n:
        n -= 1
    else:
        x = x * 10
    return x


@case()
def while_break_skips_else(x):
    while True:
        x = x + 1
        break
    else:
        x = x * 10
    return x


@case()
def for_else_found(x):
    for k in range(5):
        if k == 3:
            break
    else:
        k = -1
    return x * k


@case()
def nested_loops_with_continue(x):
    for i in range(3):
        for j in range(3):
            if j == i:
                continue
            x = x + i * j
    return x


@case()
def break_out_of_nested_loops(x):
    for i in range(3):
        for j in range(3):
            if j == 1:
                break
            x = x + 10 * i + j
        if i == 1:
            break
    return x, i, j


@case()
def loop_variable_survives(x):
    for i, v in enumerate([x, x + 1]):
        pass
    return i, v


@case()
def loop_over_reversed(x):
    out = []
    for k in reversed(range(4)):
        out.append(x * k)
    return out


@case()
def loop_over_rows(x):
    total = 0
    for row in x.view(2, 2):
        total = total + row
    return total


@case()
def loop_changes_what_it_walks(x):
    items = [1, 2, 3]
    for v in items:
        if v < 10:
            items.append(v + 10)
    return x * len(items), items


@case()
def range_forms(x):
    return [x * k for k in range(5, 0, -2)], list(range(3)), len(range(0, 10, 3)), 4 in range(0, 10, 2), range(3)[1]


@case()
def list_comprehension(x):
    return [x + i for i in range(4) if i % 2]


@case()
def nested_comprehension(x):
    return [[x * i + j for j in range(2)] for i in range(2)]


@case()
def comprehension_two_loops(x):
    return [i * 10 + j for i in range(3) for j in range(i)], x


@case()
def dict_comprehension(x):
    return {f"k{i}": x + i for i in range(3)}


@case()
def set_comprehension(x):
    return {i % 2 for i in range(5)}, x


@case()
def comprehension_sees_outer(x):
    scale = 3
    return [x * scale * i for i in range(2)]


@case()
def comprehension_does_not_leak(x):
    i = 7
    found = [i for i in range(3)]
    return x * i, found


@case()
def comprehension_with_call(x):
    def double(v):
        return v * 2

    return [double(v) for v in (x, x + 1)]


@case()
def walrus_in_condition(x):
    if (n := x.shape[0]) > 2:
        return x * n
    return n


@case()
def walrus_in_comprehension(x):
    return [last := x + i for i in range(3)], last


@case()
def walrus_in_while(x):
    items, out = [1, 2, 3], []
    while (v := items.pop()) > 1:
        out.append(x * v)
    return out, v


@case()
def star_unpack_middle(x):
    a, *b, c = [x, 1, 2, 3, x + 1]
    return a, b, c


@case()
def star_unpack_empty(x):
    a, *b = [x]
    return a, b


@case()
def nested_unpack(x):
    (a, (b, c)), d = (x, (1, 2)), 3
    return a * b + c - d


@case()
def unpack_tensor_rows(x):
    a, b = x.view(2, 2)
    return a - b


@case()
def unpack_string(x):
    a, b, c = "xyz"
    return a + c + b, x


@case()
def swap(x):
    a, b = x, x + 1
    a, b = b, a
    return a - b


@case()
def rotate_three(x):
    a, b, c = 1, 2, 3
    a, b, c = c, a, b
    return x * a + b * 10 + c * 100


@case()
def star_in_display(x):
    a = [1, 2]
    return [*a, *range(2), x], (*a, 5), {*a, 9}, {**{"a": x}, "b": 2}


@case()
def conditional_expression_chain(x):
    k = 2
    return x + (1 if k == 1 else 20 if k == 2 else 300)


@case()
def boolean_shortcuts(x):
    return x if x is None else x * 2, [] or {"a": 1}, 0 and x, None or x, not None, bool([0])


@case()
def chained_comparison(x):
    return 1 < x.dim() + 1 <= 3, 3 > 2 > 1 > 5, x


@case()
def short_circuit_skips_calls(x):
    seen = []

    def note(v, result):
        seen.append(v)
        return result

    return (note(1, False) and note(2, True)) or note(3, x), seen


@case()
def delete_variable(x):
    y = x + 1
    del y
    try:
        return y
    except UnboundLocalError as error:
        return str(error), x


@case()
def unbound_variable(x):
    if x.dim() > 1:
        y = 1
    return y


@case()
def pass_and_ellipsis(x):
    ...
    pass
    return x, ...


@case()
def early_return_in_loop(x):
    for k in itertools.count(1):
        x = x + k
        if k == 3:
            return x, "early"


@case()
def match_literal(x):
    mode = "b"
    match mode:
        case "a":
            return x
        case "b" | "c":
            return x + 2
        case _:
            return x - 1


@case()
def match_sequence(x):
    match [1, 2, 3]:
        case [a, *rest]:
            return x * a, rest


@case()
def match_exact_sequence(x):
    out = []
    for v in ([], [1], (1, 2), "ab", 3):
        match v:
            case []:
                out.append("empty")
            case [a]:
                out.append(a)
            case [a, b]:
                out.append(a + b)
            case _:
                out.append("other")
    return out, x


@case()
def match_mapping(x):
    match {"kind": "add", "by": 3, "more": 1}:
        case {"kind": "mul", "by": n}:
            return x * n
        case {"kind": "add", "by": n, **rest}:
            return x + n, rest


@case()
def match_class(x):
    match Point(1, 2):
        case Point(a=0):
            return x
        case Point(a, b=2):
            return x + a


@case()
def match_guard_and_capture(x):
    out = []
    for n in (1, 5, 50):
        match n:
            case small if small < 3:
                out.append(x + small)
            case 5 as five:
                out.append(five)
            case int():
                out.append("int")
    return out


@case()
def match_singletons(x):
    out = []
    for v in (None, True, 1, 1.5, "s"):
        match v:
            case None:
                out.append("none")
            case bool():
                out.append("bool")
            case int() | float():
                out.append(v + 1)
            case str(s):
                out.append(s * 2)
    return out, x


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


@case(2, "RB002")
def branch_on_data(x):
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y * 3


@case(4, "RB002")
def loop_on_data(x):
    n = 0
    while x.sum() < 100:
        x = x * 2 + 1
        n += 1
    return x, n


@case()
def assert_on_data(x):
    assert (x > -10).all()
    return x + 1


@case(1, "RB002")
def not_of_tensor(x):
    return not (x > 0).any()


@case(2, "RB002")
def and_of_tensors(x):
    return (x.sum() > 100 and x) or x + 5


@case(3, "RB003")
def item_in_range(x):
    n = (x + 3.5).sum().int().item()
    for _ in range(n // 5):
        x = x + 1
    return x, n
