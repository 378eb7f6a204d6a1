"""The standard library as models use it: patterns, weak references, dispatch by class, operators as functions, modules
with ``__getattr__``."""
import collections
import copy
import enum
import functools
import itertools
import math
import operator
import os
import re
import typing
import warnings
import weakref

import numpy as np

import rushlight as torch

from .table import case

ROW = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.ReLU()])
PATTERN = re.compile(r"layer\.(\d+)\.(?P<part>\w+)")


@case()
def patterns(x):
    found = PATTERN.match("layer.3.attention")
    names = re.findall(r"\w+|\(|\)", "b (h d)")
    return x * int(found.group(1)), found["part"], found.groupdict(), names, re.sub(r"\d", "N", "a1b2"), PATTERN.match(
        "other") is None, re.split(r"[ ,]+", "a, b c")


@case()
def a_rearrangement_written_as_text(x, text="b (h d) -> b h d", h=2):
    left, right = text.split("->")
    sizes, at, group = {}, 0, None
    x = x.view(2, 2)
    for token in re.findall(r"\w+|\(|\)", left):
        if token == "(":
            group = []
        elif token == ")":
            rest = x.shape[at] // math.prod(h for name in group if name == "h")
            sizes.update((name, h if name == "h" else rest) for name in group)
            at, group = at + 1, None
        elif group is not None:
            group.append(token)
        else:
            sizes[token], at = x.shape[at], at + 1
    return x.reshape([sizes[name] for name in right.split()])


class Holder:
    def __init__(self, value):
        self.value = value


HELD = Holder(3)
REFERENCE = weakref.ref(HELD)


@case()
def weak_reference(x):
    return x * REFERENCE().value


@functools.singledispatch
def doubled(value):
    return str(value)


@doubled.register
def _(value: int):
    return value * 2


@doubled.register(list)
def _(value):
    return [doubled(v) for v in value]


@case()
def function_chosen_by_class(x):
    return x * doubled(3), doubled([1, "a"]), doubled(2.5)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Name(str, enum.Enum):
    RELU = "relu"


@case()
def texts_of_members(x):
    return x, str(Level.LOW), repr(Level.HIGH), f"{Level.LOW}", str(Name.RELU), Name.RELU == "relu", Level.LOW + 1


@case()
def operators_as_functions(x):
    return (operator.getitem([x, 1], 1), operator.contains([1, 2], 2), operator.not_([]), operator.truth([x]),
            operator.concat([1], [2]),
            functools.reduce(operator.add, [x, x, 1]), operator.getitem(x, 0))


@case()
def next_as_a_method(x):
    numbers = iter([1, 2])
    return x * numbers.__next__(), next(numbers), numbers.__iter__() is numbers


@case()
def generators_given_to_builtin_functions(x):
    return x * math.prod(k for k in (2, 3)), math.fsum(map(float, [1, 2])), math.gcd(*itertools.repeat(6, 2)), "-".join(
        str(k) for k in range(3))


@case()
def numbers_of_numpy(x):
    return x * float(np.prod([2, 3])) + np.float32(2), np.log2(8), int(np.ceil(2.5)), int(np.sum((1, 2)))


class Forwarding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.asked = "no"

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, x):
        return self.inner.in_features * x + self.weight[0] + self.out_features


class Renaming(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def __getattr__(self, name):
        return super().__getattr__(name) * 2 if name == "weight" else super().__getattr__(name)

    def forward(self, x):
        return x * self.weight, hasattr(self, "nothing")


torch.manual_seed(0)
FORWARDING, RENAMING = Forwarding(), Renaming()


@case()
def module_that_forwards_attributes(x):
    return FORWARDING(x).detach()


@case()
def module_that_changes_what_it_holds(x):
    return RENAMING(x)


@case()
def slices_made_by_a_call(x):
    return x[slice(1, 3)], [1, 2, 3][slice(None, 2)]


@case(given=lambda: (0.5, 3))
def numbers_of_the_caller_in_a_tensor(x, rate, count):
    return torch.tensor([rate, count]), torch.tensor([[count], [1]]), torch.as_tensor(rate) * x


@case()
def numbers_that_data_decide_in_a_tensor(x):
    return torch.tensor([row.sum().item() for row in x.view(2, 2)]), torch.tensor((x > 0).sum().item())


class Labelled(collections.namedtuple("Pair", "a b")):
    pass


class Sliced(typing.NamedTuple):
    a: torch.Tensor
    b: torch.Tensor

    def __getitem__(self, index):
        return Sliced(self.a[index], self.b[index])


class Row(typing.TypedDict):
    data: torch.Tensor


class Copied:
    def __init__(self, v):
        self.v = v

    def __deepcopy__(self, memo):
        return Copied(self.v + 1)


@case(given=lambda: (Sliced(torch.ones(2), torch.zeros(2)),))
def named_tuples_with_attributes_and_methods(x, pair):
    made = Labelled(x, x + 1)
    made.extra = 3
    return made.a * made.extra, hasattr(made, "extra"), hasattr(made, "other"), pair[:1].b + 1, pair.a, made


@case()
def typed_dicts_and_keys_of_one_value(x):
    d = collections.defaultdict.fromkeys("ab", x)
    return Row(data=x)["data"] + 1, d["a"], d.setdefault("c", 10), type(d).__name__


@case()
def a_path_of_attributes(x):
    return operator.attrgetter("data.shape")(x), operator.attrgetter("dtype", "ndim")(x)[1], operator.itemgetter(0, 1)(
        [x, 2])[1]


@case(given=lambda: (slice(1, 3), "temp{i}"))
def slices_and_texts_with_braces_from_outside(x, part, text):
    return x[part] + 1 if text.format(i=4) == "temp4" and text != "{0}" else x


@case()
def attributes_of_partials(x):
    f = functools.partial(torch.add, x)
    f.count = 3
    return f(x) * f.count, [hasattr(f, name) for name in ("count", "other", "__name__", "__call__", "__doc__", "func",
                                                          "__code__")], f.keywords


@case(2, "RB001", given=lambda: ([Copied(1)],))
def copies_that_classes_make_themselves(x, items):
    return copy.deepcopy(items)[0].v, x + 1


@case()
def what_tensors_are(x):
    return x + 1 if not x.is_inference() and torch.overrides.is_tensor_like(x) and not torch.overrides.is_tensor_like(
        [x]) else x


@case()
def membership_of_iterators_and_objects(x):
    one, numbers = Copied(3), iter([1, 2, 3])
    return 2 in numbers, list(numbers), one in [1, one], [1, one].index(one), [one, one].count(one), x


@case()
def deep_copies_of_tensors(x):
    held = {"a": x, "b": [x, x * 2]}
    made = copy.deepcopy(held)
    made["a"].add_(1)
    return made, made["a"] is made["b"][0], held["b"][1]


@case()
def named_tuples_made_within(x):
    Pair = collections.namedtuple("Pair", ["a", "b"], defaults=(3,))
    return tuple(Pair(x)), Pair(x, 1)._replace(b=x)._asdict()["b"], Pair.__name__, os.fspath("a/b")


class Path:
    def __init__(self, v):
        self.v = v

    @property
    def twice(self):
        return 2 * self.v

    def __fspath__(self):
        return f"at/{self.v}"


@case(given=lambda: (Path(3),))
def descriptors_called_by_hand(x, path):
    return x + Path.twice.__get__(path, Path) + type(path).__dict__["twice"].fget(path), os.fspath(path)


@case()
def keywords_named_like_parameters(x):
    found = dict(other=x, owner=1, self=2, mapping=3)
    found.update(key=x + 1, owner=4, other=5)
    return found


class Acting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.act = torch.nn.functional.gelu

    def forward(self, x):
        return self.act(x)


@case()
def operators_as_attributes_of_modules(x):
    return Acting()(x), getattr(torch.nn.functional.gelu, "nothing", 3), hasattr(torch.ops.aten, "nothing_of_this_name")


@case()
def warnings_recorded(x):
    with warnings.catch_warnings(record=True) as found:
        y = x + len(found)
    return y, found
