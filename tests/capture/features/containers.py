"""Lists, tuples, dicts, sets, deques and their kin: read, made, and changed, also where they come from outside."""
import collections
import types
import typing
from collections.abc import MutableMapping

import rushlight as torch

from .table import case


@case()
def list_methods(x):
    a = [3, 1, 2]
    a.append(9)
    a.extend((4, 5))
    a.insert(1, 7)
    a.remove(9)
    b = a.pop(), a.pop(0), a.index(2), a.count(1)
    a.reverse()
    return x, a, b, a.copy(), len(a)


@case()
def list_slices(x):
    a = list(range(6))
    a[1:3] = [10]
    a[::2] = [0, 0, 0]
    del a[-1]
    del a[:1]
    return x, a, a[::-1], a[-2:], a[10:]


@case()
def list_sort(x):
    a = [3, 1, 2]
    a.sort(key=lambda v: -v)
    b = sorted(["bb", "a", "ccc"], key=len, reverse=True)
    return x, a, b, sorted((3, 1)), sorted({"z": 1, "y": 2})


@case()
def sort_is_stable(x):
    rows = [("b", 1), ("a", 1), ("c", 0)]
    return sorted(rows, key=lambda r: r[1]), sorted(rows, key=lambda r: r[1], reverse=True), x


@case()
def list_of_lists_shares(x):
    row = [0]
    grid = [row] * 2
    grid[0].append(x)
    return grid, grid[0] is grid[1]


@case()
def list_multiplied(x):
    return [x] * 3, 2 * [1, 2], (1,) * 2, [1] * 0


@case()
def list_compare(x):
    return x, [1, 2] < [1, 3], [1] == [1.0], (1, 2) >= (1,), [1] != [2], [] == ()


@case(given=lambda: ([1, 2],))
def list_from_outside(x, items):
    items.append(x + 1)
    items[0] = 5
    return len(items)


@case(given=lambda: ([1, 2, 3],))
def list_cleared_outside(x, items):
    items.clear()
    items += [x.shape[0], "new"]
    return x


@case(given=lambda: ([3, 1, 2],))
def list_sorted_in_place_outside(x, items):
    items.sort()
    items.reverse()
    return x


@case(given=lambda: ([[1], [2]],))
def inner_list_outside(x, items):
    items[1].append(x)
    items[0], items[1] = items[1], items[0]
    return items[0]


@case(given=lambda: ((lambda a: (a, a))([1]),))
def aliased_lists_outside(x, pair):
    pair[0].append(2)
    return pair[1], pair[0] is pair[1], x


@case()
def tuple_methods(x):
    t = (1, 2, 1)
    return t.count(1), t.index(2), t + (x,), t[1:], 1 in t, hash(t) == hash((1, 2, 1))


@case()
def dict_methods(x):
    d = {"a": 1, "b": x}
    d.update(c=3)
    d.update({"d": 4})
    d.update([("e", 5)])
    gone = d.pop("a"), d.pop("zz", None), d.popitem()
    d.setdefault("f", []).append(1)
    return d, gone, d.get("q"), d.get("q", 2), list(d.items()), list(d.values()), "b" in d


@case()
def dict_iteration(x):
    d = {"a": x, "b": x + 1}
    total = 0
    for k in d:
        total = total + d[k]
    for k, v in d.items():
        total = total + v * len(k)
    return total, sum(d.values()), [*d], dict(reversed(list(d.items())))


@case()
def dict_views(x):
    d = {"a": 1, "b": 2}
    keys = d.keys()
    d["c"] = 3
    return list(keys), len(keys), "c" in keys, d.keys() & {"a", "c"}, x


@case()
def dict_operators(x):
    a = {"a": 1, "b": 2}
    b = a | {"b": 3}
    a |= {"z": 0}
    return a, b, a == b, {"a": 1} == {"a": 1}, x


@case()
def dict_delete_and_order(x):
    d = dict(a=1, b=2, c=3)
    del d["a"]
    d["a"] = 4
    return d, list(d), x


@case()
def dict_fromkeys_and_zip(x):
    return dict.fromkeys("ab", 1), dict(zip("ab", (x, 1))), dict([("k", 2)], m=3)


@case()
def dict_with_tuple_keys(x):
    d = {(0, 1): x}
    d[1, 2] = x + 1
    return d[0, 1] + d[(1, 2)], 3 in d


@case()
def dict_missing_key(x):
    return {"a": x}["b"]


@case(given=lambda: ({"n": 0},))
def dict_outside_counts(x, state):
    state["n"] += 1
    state["last"] = x * 2
    return x + 1


@case(given=lambda: ({"a": 1, "b": 2},))
def dict_outside_shrinks(x, state):
    removed = state.pop("a")
    del state["b"]
    return x + removed, len(state)


@case(given=lambda: ({"k": {"deep": [1]}},))
def nested_outside(x, state):
    state["k"]["deep"].append(2)
    state["k"]["new"] = state["k"]["deep"]
    return x * len(state["k"]["new"])


@case()
def set_methods(x):
    s = {1, 2, 3}
    s.add(4)
    s.discard(9)
    s.remove(1)
    s.update([7, 8])
    return s, s | {0}, s & {2, 3}, s - {2}, s ^ {2, 99}, s.union([5]), s.intersection({2}), s.difference(
        [2]), s.issubset(range(10)), 2 in s, x


@case()
def set_compare(x):
    return {1} < {1, 2}, {1, 2} >= {2}, {1} == frozenset([1]), {1, 2}.issuperset({1}), {1}.isdisjoint({2}), {
        1}.symmetric_difference({2}), x


@case(given=lambda: ({1, 2},))
def set_outside(x, seen):
    seen.add(5)
    seen.discard(1)
    return x * len(seen)


@case()
def set_pop_and_clear(x):
    s = {5}
    v = s.pop()
    s.add(2)
    s.clear()
    return v, s, x


@case()
def frozen_set(x):
    f = frozenset([1, 2])
    return f | {3}, {f: x}[frozenset([2, 1])], len(f)


@case()
def deque_methods(x):
    d = collections.deque([1, 2, 3], maxlen=3)
    d.append(4)
    d.appendleft(0)
    d.rotate(1)
    d.extend([7])
    d.extendleft([8])
    return d, d.pop(), d.popleft(), len(d), d.maxlen, x, 7 in d


@case(given=lambda: (collections.deque([1, 2], maxlen=2),))
def deque_outside(x, d):
    d.append(x)
    return d[0]


@case()
def ordered_dict(x):
    d = collections.OrderedDict(a=x, b=2)
    d.move_to_end("a")
    d["c"] = 3
    return d, d.popitem(last=False), list(d)


@case()
def default_dict(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    d["b"]
    return d["a"], dict(d), len(d), "z" in d


@case()
def default_dict_of_lambda(x):
    d = collections.defaultdict(lambda: 5)
    d["a"] += 1
    return x * d["a"] + d["b"]


@case()
def counter(x):
    c = collections.Counter("aabc")
    c["a"] += 1
    return c["a"], c["zz"], dict(c), x


@case()
def chain_map(x):
    c = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
    return c["a"], c["b"], x + len(c)


class Answers(MutableMapping):
    """A mapping by the abstract base class."""

    def __init__(self, **items):
        self.items_, self.reads = dict(items), 0

    def __getitem__(self, key):
        self.reads += 1
        return self.items_[key]

    def __setitem__(self, key, value):
        self.items_[key] = value

    def __delitem__(self, key):
        del self.items_[key]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)


@case()
def mutable_mapping(x):
    m = Answers(a=x)
    m["b"] = 2
    m.update(c=3)
    return m["a"] * m["b"], len(m), list(m), m.get("zz", 4), "a" in m, m.pop("c"), m.reads, m.setdefault("d", 5)


@case(given=lambda: (Answers(a=1, b=2),))
def mutable_mapping_outside(x, m):
    m["c"] = x
    del m["a"]
    return x + m["b"], [k for k, v in m.items()]


class Stack(list):
    """A list with more."""

    def push(self, v):
        self.append(v)
        return self

    def top(self):
        return self[-1]


class Table(dict):
    """A dict with attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __missing__(self, key):
        return f"no {key}"


@case()
def list_subclass(x):
    s = Stack([1])
    s.push(x).push(3)
    return s.top(), len(s), s, isinstance(s, list), [type(v).__name__ for v in s]


@case()
def dict_subclass(x):
    t = Table(a=x)
    t["b"] = 2
    return t.a * t.b, t["zz"], hasattr(t, "q"), sorted(t)


@case(given=lambda: (Stack([1, 2]),))
def list_subclass_outside(x, s):
    s.push(5)
    return x * s.top(), len(s)


@case(given=lambda: (Table(a=1),))
def dict_subclass_outside(x, t):
    t["b"] = t.a + 1
    return x * t.b


@case()
def simple_namespace(x):
    n = types.SimpleNamespace(a=x, b=2)
    n.c = 3
    return n.a * n.b + n.c


@case(given=lambda: (types.SimpleNamespace(a=1),))
def simple_namespace_outside(x, n):
    n.a += 1
    n.last = x
    return x * n.a


@case()
def typed_dict_and_generic(x):
    class_ = dict[str, int]
    values: typing.List[int] = [1, 2]
    return x * sum(values), str(class_)


@case()
def memory_of_loops(x):
    out = []
    for k in range(3):
        out.append({"k": k, "x": x + k})
    return out, out[1]["x"] - out[0]["x"]


@case()
def list_contains_tensor_identity(x):
    items = [x, 1]
    return x in [x], items[0] is x, 1 in items[1:]


@case()
def size_is_a_tuple(x):
    s = x.view(2, 2).shape
    return s == (2, 2), s[0] * x, isinstance(s, tuple), s.numel(), len(s), [*s], s + (1,), list(s), torch.Size([1, 2])


@case()
def slices_as_objects(x):
    s = slice(1, 3)
    return x[s], [1, 2, 3, 4][s], s.start, s.indices(10), x.view(2, 2)[:, s.start]


@case()
def bytes_items(x):
    b = b"abc"
    return b[0], b.decode(), bytes([1, 2]), x


@case()
def equal_items_of_sets(x):
    return {0, False}, {1.0} | {1}, set([True, 1]), {1: "a", True: "b"}, x


@case(2, ("RB004", "RB006"), given=lambda: ({"k": 1, "z": 2}, {1, 2}))
def iterators_over_what_was_changed_before(x, table, numbers):
    table.pop("z")
    numbers.add(3)
    one, two = iter(table), iter(numbers)
    first = next(one), next(two)
    torch.compiler.graph_break()
    return first, list(one), list(two), x + 1


@case(given=lambda: ([1, 2],))
def reversed_lists_that_grow(x, items):
    turned = reversed(items)
    next(turned)
    return list(turned), x


WEIGHT, OTHER = torch.nn.Parameter(torch.ones(2)), torch.zeros(2)
BY_TENSOR = collections.defaultdict(dict, {WEIGHT: {"step": 1}, 5: {}})


@case()
def dicts_by_tensors(x):
    made = {x: 1, OTHER: 2, WEIGHT: 3}
    found = [WEIGHT in BY_TENSOR, OTHER in BY_TENSOR, x in BY_TENSOR, made[x] + made[OTHER], BY_TENSOR[WEIGHT]["step"],
             len({x, x, OTHER})]
    return found, [k is WEIGHT for k in BY_TENSOR], [k is OTHER for k in made], x.sum() + 1
