"""Random programs, compiled and plain: control flow, containers, closures, exceptions, changes in place and through
views.

    python -m tests.fuzz.programs [how many] [first seed]

A program is a tree of statements, made from a seed; where the two runs differ it is made smaller while they still do.
"""
from __future__ import annotations

import contextlib
import copy
import functools
import io
import itertools
import random
import sys
import warnings

import rushlight as torch

from ..capture.compare import shown

TENSORS, NUMBERS, LISTS, DICTS = ("x", "y", "a", "b"), ("n", "m", "k"), ("items", "out"), ("table", "d")
START = ["a = x + 1", "b = y * 2", "m = 2", "k = 0", "out = []", "d = {}"]


class Box:
    """An object with state and most of what objects can do."""

    def __init__(self, value):
        self.value, self.log = value, []

    def add(self, v):
        self.value = self.value + v
        self.log.append("add")
        return self

    @property
    def double(self):
        return self.value * 2

    @double.setter
    def double(self, v):
        self.value = v // 2

    def __enter__(self):
        self.log.append("in")
        return self.value

    def __exit__(self, kind, error, trace):
        self.log.append(kind.__name__ if kind else "out")
        return kind is KeyError

    def __len__(self):
        return len(self.log)

    def __getitem__(self, k):
        return self.log[k]

    def __eq__(self, other):
        return isinstance(other, Box) and self.value == other.value

    __hash__ = None


class Odd:
    """An object whose special methods answer as its number says, sometimes what they may not."""

    def __init__(self, v):
        self.v = v

    def __bool__(self):
        return self.v > 1 if self.v % 3 else self.v

    def __len__(self):
        return abs(self.v) if self.v != 4 else 1.5  # list() asks, too

    def __contains__(self, other):
        return [] if other == self.v else self.v

    def __index__(self):
        return self.v if self.v != 3 else None

    def __iter__(self):
        return iter([self.v] * 2) if self.v % 4 else self.v

    def __str__(self):
        return f"odd {self.v}" if self.v % 2 else self.v

    def __eq__(self, other):
        return self.v if other == 1 else other == self.v

    def __getattr__(self, name):
        if name == "none" or name.startswith("__"):
            raise AttributeError(name)
        return name

    @property
    def shown(self):
        return self.v if self.v > 1 else self.__missing


class Block:
    """A compound statement: (header, body) parts."""

    def __init__(self, *parts):
        self.parts = [(header, list(body)) for header, body in parts]


class Kept(str):
    """A statement without which a loop would not end: a smaller program has it, too."""


class Maker:
    """Makes a program from random choices; ``depth`` of nesting, whether in a loop or a function."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = 0

    def pick(self, *options):
        return self.random.choice(options)

    def program(self):
        return START + self.body(self.random.randint(4, 10), 0, False) + [f"return {self.result()}"]

    def result(self):
        return self.pick("x", "a, b", "a + b, n", "out, d, k", "[a, n, m]", "{'a': a, 'k': k}", "items, table, m",
                         "box, a", "(x, y), n + m", "a.sum(), out")

    def body(self, count, depth, loop):
        return [self.statement(depth, loop) for _ in range(count)]

    def inner(self, depth, loop):
        return self.body(self.random.randint(1, 3), depth + 1, loop)

    # --- expressions --------------------------------------------------------------------------------------------------
    def tensor(self, depth=0):
        r = self.random.random()
        if depth > 2 or r < 0.35:
            return self.pick(*TENSORS)
        t, u, n = self.tensor(depth + 1), self.tensor(depth + 1), self.number(1)
        return self.pick(f"({t} + {u})", f"({t} * {n})", f"({t} - {u})", f"{t}.sin()", f"{t}.clamp(-3, 3)",
                         f"({t} + {t}.sum())", f"torch.where({t} > 0, {t}, {u})",
                         f"{t}.view(2, 2).t().reshape(4)", f"{t}[::1]", f"{t}.flip(0)",
                         f"torch.cat([{t}[:2], {u}[2:]])", f"{t}.detach()", f"({t} / 2)", f"abs({t})",
                         f"torch.stack([{t}, {u}]).mean(0)", f"({t} if {n} > 1 else {u})", f"{t}.clone()",
                         f"{t}.roll({n} % 4)", f"{t}.view(2, 2)[{n} % 2].repeat(2)",
                         f"sum([{t}, {u}])", f"max([{t}, {u}], key=lambda v: 1)", f"torch.full((4,), {n} * 1.0)",
                         f"({n} - {t})")

    def number(self, depth=0):
        r = self.random.random()
        if depth > 2 or r < 0.4:
            return self.pick(*NUMBERS, "1", "2", "3", "0", "5")
        p, q = self.number(depth + 1), self.number(depth + 1)
        items = self.pick(*LISTS)
        return self.pick(f"({p} + {q})", f"({p} - {q})", f"({p} * {q}) % 7", f"({p} // 2)", f"({p} % 5)",
                         f"len({items})", f"x.shape[0]", f"({p} if {q} > 2 else {q})",
                         f"abs({p})", f"min({p}, {q})", f"max({p}, {q})", f"sum(range({p} % 4))", f"-{p}",
                         f"int({p} / 2)", f"len(table)", f"({p} and {q})", f"({p} or {q})",
                         f"table.get('k', {p})", "box.value", "len(box)", f"[{p}, {q}][{p} % 2]", f"divmod({p}, 3)[1]",
                         f"({p} > {q})", f"round({p} / 3)")

    def condition(self):
        p, q, t = self.number(1), self.number(1), self.pick(*TENSORS)
        return self.pick(f"{p} > {q}", f"{p} % 2 == 0", f"{p} == {q}", f"not {p}", f"{p} < 3 and {q} < 5",
                         f"len({self.pick(*LISTS)}) > {p}", f"'k' in {self.pick(*DICTS)}",
                         f"{t}.sum() > {p}", f"({t} > 0).any()", f"{t} is {self.pick(*TENSORS)}", f"{p} in (1, 2, 3)",
                         f"isinstance({p}, bool)", f"{t}.dim() == 1",
                         f"box == Box({p})", f"{p} <= {q} <= 4", f"out == [{p}]")

    def text(self):
        n = self.number(1)
        return self.pick(f"f'{{{n}}}'", f"str({n})", "'k'", "'z'", f"'%d' % ({n})", f"'ab'[{n} % 2]")

    # --- statements ---------------------------------------------------------------------------------------------------
    def statement(self, depth, loop):
        r = self.random.random()
        if depth < 3 and r < 0.3:
            return self.compound(depth, loop)
        if r < 0.5:
            return self.pick(f"{self.pick(*TENSORS)} = {self.tensor()}", f"{self.pick(*TENSORS)} = {self.tensor()}",
                             f"{self.pick(*NUMBERS)} = {self.number()}")
        if r < 0.62:
            return self.in_place()
        if r < 0.8:
            return self.containers()
        if loop and r < 0.84:
            return Block((f"if {self.condition()}:", [self.pick("break", "continue")]))
        return self.data() if r > 0.95 else self.asked() if r > 0.9 else self.shared() if r > 0.87 else self.various()

    def asked(self):
        """What builtins ask of objects, and iterators that are begun."""
        n, m, t, name, items = self.number(1), self.number(1), self.tensor(1), self.fresh(), self.pick(*LISTS)
        odd = f"odd = Odd({n}); "
        made = self.pick(f"zip({items}, 'abc')", f"enumerate({items}, {n})", f"map(lambda v: [v], {items})",
                         f"filter(None, {items})", f"iter({items})", "iter(table)", f"reversed({items})",
                         f"itertools.chain({items}, [{n}])", f"itertools.islice({items}, {n} % 3)",
                         f"itertools.count({n})", "itertools.repeat(1)", f"steps({n})")
        # `in` would ask one that never ends for ever
        within = "itertools.islice(it, 9)" if "count" in made or "repeat" in made else "it"
        return self.pick(odd + "out.append(bool(odd))", odd + "out.append(len(odd))", odd + f"out.append({m} in odd)",
                         odd + "out.append([1, 2, 3][odd])", odd + "out.append(list(range(odd)))",
                         odd + "out.append(str(odd))", odd + f"out.append(odd == {m} or odd in [1, 2])",
                         odd + f"out.append([getattr(odd, 'none', {m}), hasattr(odd, 'v'), callable(odd), "
                               "callable(out)])",
                         odd + "out.append(1 if odd else 2)", odd + "k = int(odd)",
                         odd + f"out.append([odd.shown, odd.attribute_{name}])", odd + "out.append(list(odd))",
                         odd + "p, q = odd",
                         f"it = {made}; out.append([next(it, {m}), type(it).__name__, {m} in {within}])",
                         f"it = {made}; k = next(it, {m}); a = {t}; out.append(list(itertools.islice(it, 3)))",
                         f"it = {made}; torch.compiler.graph_break(); out.append(next(it, {m}))",
                         f"it = {made}; next(it); torch.compiler.graph_break(); out.append(next(it))",
                         f"for i, v in zip({items}, range(4)): {items}.append(i)", f"out.append(sum([{n}, {m}], {t}))",
                         f"out.append(sorted({items}, key=lambda v: -v if isinstance(v, int) else 0)[:2])",
                         f"p, *q = {made if 'count' not in made and 'repeat' not in made else items}; "
                         "out.append(len(q))",
                         f"out.append([*zip(*[{items}, {items}])])",
                         f"{name} = functools.partial(helper, n={m}); a = {name}({t}); out.append(hasattr({name}, "
                         "'keywords'))")

    def shared(self):
        """Views that are written, and histories that are cut."""
        t, u, n, name = self.pick(*TENSORS), self.tensor(1), self.number(1), self.fresh()
        view = self.pick(f"{t}.view(2, 2).diagonal()", f"{t}.view(2, 2).t()[{n} % 2]", f"{t}[1::2]",
                         f"{t}.view(2, 2).unbind(1)[0]", f"{t}.unfold(0, 2, 2)", f"{t}.as_strided((2,), (2,))",
                         f"{t}[None, 1:].expand(1, 3)", f"{t}.split(2)[1]", f"{t}.view(2, 2)[:, {n} % 2]",
                         f"{t}.squeeze()")
        write = self.pick(f"add_({n})", "mul_(2)", "zero_()", f"fill_({n})", "clamp_(-1, 1)", "neg_()",
                          "exp_().clamp_(max=9)")
        grads = f"{name} = {u}.detach().requires_grad_()"
        return self.pick(f"v = {view}; v.{write}; out.append(v)", f"{view}.{write}",
                         f"v = {view}; {t} = {t} * 1; v.{write}", f"v = {view}; {t}.add_({n}); out.append(v * 1)",
                         f"v = {view}; w = v.clone(); v.{write}; out.append(w + v)",
                         Block(("with torch.no_grad():", [f"v = {view}; v.{write}"])),
                         Block((f"{grads}", []), ("with torch.no_grad():", [f"p = {name} * {n}"]),
                               (f"q = {name} * {n}; out.append([p.requires_grad, q.requires_grad, p])", [])),
                         Block((f"{grads}", []),
                               ("with torch.enable_grad():",
                                [f"g = ({name} * {n}).sum()",
                                 self.pick("torch.compiler.graph_break()", "print(n)", "pass"), "g.backward()"]),
                               (f"out.append({name}.grad)", [])),
                         Block((f"{grads}; h = {name} * 2", []),
                               ("with torch.no_grad():", [f"h.view(2, 2)[0].{write}"]),
                               (f"h.sum().backward(); out.append({name}.grad)", [])),
                         f"{grads}; h = {name} * 2; h[1:].mul_({n}); h.sum().backward(); out.append({name}.grad)")

    def data(self):
        """What depends on the elements of tensors."""
        t, u, n, d = self.tensor(1), self.pick(*TENSORS), self.number(1), self.pick(*DICTS)
        name = self.fresh()
        return self.pick(f"k = ({t} > {n}).sum().item()", f"out.append({t}.sum().item())",
                         f"out.append({t}[{t} > {n}])", f"m = {t}[{t} > 0].shape[0]",
                         f"a = {t} * {t}[{t} > 0].sum()", f"out.append(torch.nonzero({t} > {n}) + 1)",
                         f"{u} = {t} * {u}.max().item()", f"out.append(f'{{{u}.sum():.2f}} {n}')",
                         f"print({t}.detach(), {n}, f'{{{u}.sum().item():.3f}}')", f"assert ({t} > {n}).any(), 'none'",
                         f"p, q, *_ = {t}.long().tolist(); k = p - q",
                         f"{name} = {t}.sum().item(); {d}['v'] = {name} * 2 + {n}",
                         f"{u} = torch.cat([{t}[{t} > 0], {t}[{t} <= 0]])", f"out.append(torch.unique({t}.round()))",
                         f"{name} = {t}.clone().requires_grad_(); ({name} * {name}).sum().backward(); "
                         f"{u} = {name}.grad",
                         f"k = int({t}.sum().long()) % 5",
                         f"h = {t}.detach().requires_grad_(); g = h * {n}; g.register_hook(lambda v: v * 2); "
                         "g.sum().backward(); out.append(h.grad)",
                         f"{u}[{u} > {n}] = {t}[{t} > 0].sum()",
                         f"for v in range(({t} > 0).sum().item() % 3): out.append(v)",
                         f"out.append({t}[:({t} > 0).sum().item()])",
                         f"if {t}.sum().item() > {n}: k = {n}",
                         f"{u} = torch.cond({t}.sum() > {n}, lambda v: v * 2, lambda v: v - {n}, ({t},))",
                         f"k, {u} = [w if i else w.item() for i, w in enumerate(torch.while_loop(lambda i, w: i < {n} "
                         f"% 3, lambda i, w: (i + 1, w.sin() + {u}), (torch.tensor(0), {t})))]",
                         f"h = {t}.detach().requires_grad_(); g = h * {n}; g.retain_grad(); g.register_hook(lambda v: "
                         "out.append(v.sum())); g.sum().backward(); out.append(g.grad)",
                         f"out.append(x[:torch.tensor(2)] * torch.div({n} + 4, 2, rounding_mode='floor').item())",
                         f"p = torch.nn.Parameter({t}.detach() * 1); (p * {u}.detach()).sum().backward(); {u} = "
                         "p.grad; out.append(torch.nn.ReLU()(p).sum().detach())",
                         f"torch._check(({t} > 99).sum().item() <= 4); out.append({t}.repeat_interleave(({t} > "
                         "0).long()))")

    def in_place(self):
        t, u, n = self.pick(*TENSORS), self.tensor(1), self.number(1)
        return self.pick(f"{t} += {u}", f"{t}.add_({n})", f"{t}[{n} % 4] = {n}", f"{t}.mul_(0.5)", f"{t}[1:3] = 0",
                         f"{t}.view(2, 2)[0] -= {n}", f"{t} *= {n}",
                         f"{t}.copy_({u})", f"v = {t}.view(2, 2); v[1].add_(1); {self.pick(*TENSORS)} = v.view(4)",
                         f"{t}[{t} > 1] = 0", f"{t}.zero_()",
                         f"{t}[:2] = {t}[2:] * 2", f"{t}.clamp_(-5, 5)")

    def containers(self):
        items, d, n, m, t = self.pick(*LISTS), self.pick(*DICTS), self.number(1), self.number(1), self.tensor(1)
        return self.pick(f"{items}.append({n})", f"{items}.append({t})", f"{items}.insert({n} % 3, {m})",
                         f"{items}.pop()", f"{items} += [{n}, {m}]", f"{items}[0] = {n}",
                         f"{items}.reverse()", f"{items}[1:] = [{n}]", f"del {items}[-1]",
                         f"{items}.extend(range({n} % 3))", f"{items} = {items}[::-1]",
                         f"{items} = [v for v in {items} if not isinstance(v, int) or v > {n}]", f"{items}.clear()",
                         f"k = len({items}) + {n}",
                         f"{d}[{self.text()}] = {n}", f"{d}['t'] = {t}", f"{d}.pop('z', None)", f"{d}.update(z={n})",
                         f"{d}.setdefault('s', []).append({n})",
                         f"del {d}['k']", f"{d} = {{**{d}, 'q': {n}}}",
                         f"m = sum(v for v in {d}.values() if isinstance(v, int))", f"out.append(sorted({d}))",
                         f"out.append([(i, v) for i, v in enumerate({items})])",
                         f"out.append(dict(zip('ab', ({n}, {m}))))", f"out.append(list({d}.items()))",
                         f"out.append({{{n}, {m}}})", f"out.append(list(map(lambda v: v, {items})))",
                         f"{items}, out = out, {items}", f"out.append({items} is out)",
                         f"k = {d}['k']", f"out.append({items}[{n}])", f"out.append({items}.index({n}))")

    def various(self):
        n, m, t, u = self.number(1), self.number(1), self.tensor(1), self.tensor(1)
        name = self.fresh()
        return self.pick(f"box.value = {n}", f"box.add({n})", f"box.double = {n}", f"k = box.double",
                         f"box.extra = {t}", f"out.append(box.log[:])", f"print({n}, {self.text()})",
                         f"a, b = b, a", f"n, m = m, {n}", f"a, *rest = {t}, {n}, {m}; out.append(rest)",
                         f"out.append({self.text()})", f"{name} = lambda v, w={n}: v * w; a = {name}({t})",
                         f"k = (k := {n}) + {m}", f"out.append([{t} * i for i in range({n} % 3)])",
                         f"if {self.condition()}: out.append({n})", f"assert {self.condition()}, {self.text()}",
                         f"a = a if {self.condition()} else {t}", f"for i in range({n} % 3): x = x + i",
                         f"b = Box({t}).add({u}).value", f"k = int({t}.sum().item()) % 7",
                         f"with torch.no_grad(): a = {t}", f"torch.compiler.graph_break()",
                         f"out.append(hasattr(box, 'extra'))", f"k = next(iter(items), {n})",
                         f"del {self.pick('k', 'm', 'b')}",
                         f"global COUNT; COUNT = COUNT + {n} % 3; out.append(COUNT)",
                         f"out.append(tuple(v for v in steps({n})))", f"a = helper({t}, {n})",
                         f"out.append((lambda *p, **q: (p, q))({n}, z={m}))")

    def fresh(self):
        self.names += 1
        return f"f{self.names}"

    def compound(self, depth, loop):
        kind, d = self.pick("if", "if", "for", "while", "try", "try", "with", "def", "match", "forever", "over"), depth
        if kind == "if":
            parts = [(f"if {self.condition()}:", self.inner(d, loop))]
            if self.random.random() < 0.3:
                parts.append((f"elif {self.condition()}:", self.inner(d, loop)))
            return Block(*parts, *([("else:", self.inner(d, loop))] if self.random.random() < 0.5 else []))
        if kind == "for":
            walked = self.pick(f"range({self.number(2)} % 4)", "list(items)", "[1, 2, 3]", "(a, b)", "list(table)",
                               "reversed(range(3))")
            return Block((f"for {self.pick('i', 'k', 'i')} in {walked}:", self.inner(d, True)),
                         *([("else:", self.inner(d, loop))] if self.random.random() < 0.2 else []))
        if kind == "over":
            return Block(("for i, v in enumerate(list(items)):", self.inner(d, True)))
        if kind in ("while", "forever"):
            counter = f"c{d}{self.fresh()}"
            head = f"while {counter} < {self.random.randint(1, 4)}:" if kind == "while" else "while True:"
            stop = [] if kind == "while" else [Kept(f"if {counter} > 3: break")]
            return Block((f"{counter} = 0", []), (head, [Kept(f"{counter} += 1"), *stop, *self.inner(d, True)]))
        if kind == "try":
            error = self.pick("ValueError", "KeyError", "IndexError", "ZeroDivisionError", "(KeyError, IndexError)",
                              "Exception", "RuntimeError")
            raising = [self.pick(f"raise ValueError({self.number(1)})", "raise KeyError('k')",
                                 f"out.append(1 // ({self.number(1)} % 2))", f"table['absent{self.pick('', 1)}']",
                                 "raise",
                                 "helper(a, 9)")] if self.random.random() < 0.6 else []
            parts = [("try:", self.inner(d, loop) + raising + self.inner(d, loop)),
                     (f"except {error} as error:", ["out.append(str(error))", *self.inner(d, loop)])]
            if self.random.random() < 0.3:
                parts.append(("else:", self.inner(d, loop)))
            return Block(*parts, *([("finally:", self.inner(d, False))] if self.random.random() < 0.4 else []))
        if kind == "with":
            return Block((self.pick("with box as v:", "with torch.no_grad():", "with box:", "with box, Box(3) as w:",
                                    "with scope(out):"), self.inner(d, loop)))
        if kind == "match":
            return Block((f"match {self.pick(self.number(1), 'items', 'table')}:", []),
                         (" case 1 | 2:", self.inner(d, loop)), (" case [p, *q]:", self.inner(d, loop)),
                         (" case {'k': p}:", self.inner(d, loop)), (" case _:", self.inner(d, loop)))
        name = self.fresh()
        shared = self.pick("nonlocal a, k", "nonlocal n", "nonlocal out, m", "pass")
        return Block((f"def {name}(v, w={self.number(2)}):",
                      [shared, *self.inner(d + 1, False), f"return {self.pick('v', 'w', 'v * w', 'a')}"]),
                     (self.pick(f"b = {name}({self.tensor(2)})",
                                f"out.append({name}({self.number(2)}, w={self.number(2)}))"), []))


# --- text -------------------------------------------------------------------------------------------------------------
def lines_of(body, indent):
    """A tree of statements as lines of source."""
    pad, out = "    " * indent, []
    for one in body:
        if isinstance(one, str):
            out.append(pad + one)
            continue
        for header, inner in one.parts:
            extra = header.startswith(" ")
            out.append(pad + "    " * extra + header.strip())
            if header.endswith(":") and not header.startswith("match "):
                out += lines_of(inner, indent + 1 + extra) or [pad + "    " * (1 + extra) + "pass"]
    return out


def source_of(program) -> str:
    return "\n".join(["def f(x, y, n, items, table, box):", *lines_of(program, 1)]) + "\n"


SUPPORT = """
COUNT = 0

def steps(n):
    for i in range(n % 4):
        yield i
    return n

def helper(t, n):
    if n > 8:
        raise ValueError(f"too many: {n}")
    t = t + n
    return t * 2 if n % 2 else t

@contextlib.contextmanager
def scope(log):
    log.append("enter")
    try:
        yield 1
    finally:
        log.append("leave")
"""


def function_of(source):
    """The function of a program's source, in a module of its own; None where it is not Python (``nonlocal`` of what is
    not there)."""
    namespace = {"torch": torch, "Box": Box, "Odd": Odd, "contextlib": contextlib, "functools": functools,
                 "itertools": itertools, "__name__": "program"}
    exec(SUPPORT, namespace)
    try:
        exec(compile(source, "<program>", "exec"), namespace)
    except SyntaxError:
        return None
    return namespace["f"]


# --- comparison -------------------------------------------------------------------------------------------------------
def arguments(seed, call):
    """What one call gets: from the third on numbers, contents and aliases differ."""
    r = random.Random(seed * 7 + call // 2)
    x = torch.tensor([r.randint(-3, 3) + 0.5 for _ in range(4)])
    y = x if r.random() < 0.2 else x.view(2, 2).view(4) if r.random() < 0.2 else torch.tensor([float(r.randint(-2, 4))
                                                                                               for _ in range(4)])
    items = [r.randint(0, 3) for _ in range(r.randint(1, 3))]
    return x, y, r.randint(0, 4), items, {"k": r.randint(0, 3), "z": 1}, Box(r.randint(0, 2))


def outcome(function, given):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        try:
            result = "returned", shown(function(*given))
        except Exception as error:
            result = "raised", type(error).__name__, str(error)
    return result, shown(given), text.getvalue()


def difference(source, seed, backend="eager", calls=4):
    """What a compiled program does otherwise than the plain one; None if nothing."""
    plain, other = function_of(source), function_of(source)
    if plain is None:
        return None
    compiled = torch.compile(other, backend=backend)
    for call in range(calls):
        wanted = outcome(plain, arguments(seed, call))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = outcome(compiled, arguments(seed, call))
        if got != wanted:
            return f"call {call}\nplain    {wanted}\ncompiled {got}"
    return None


# --- shrinking --------------------------------------------------------------------------------------------------------
def smaller(program):
    """Programs with one statement less, or one block replaced by a body of it."""
    for k, one in enumerate(program):
        if not isinstance(one, Kept):
            yield program[:k] + program[k + 1:]
        if isinstance(one, Block):
            for part, (_, body) in enumerate(one.parts):
                if body:
                    yield program[:k] + body + program[k + 1:]
                for less in smaller(body):
                    made = copy.copy(one)
                    made.parts = list(one.parts)
                    made.parts[part] = one.parts[part][0], less
                    yield program[:k] + [made] + program[k + 1:]


def shrunk(program, seed, backend):
    """The smallest program found that still differs."""
    found = True
    while found:
        found = False
        for less in smaller(program):
            if difference(source_of(less), seed, backend):
                program, found = less, True
                break
    return program


def check(seed, backend="eager"):
    """A report where the program of a seed differs; None otherwise."""
    program = Maker(seed).program()
    if not difference(source_of(program), seed, backend):
        return None
    program = shrunk(program, seed, backend)
    source = source_of(program)
    return f"seed {seed}\n{source}{difference(source, seed, backend)}"


def main(count=1000, first=0):
    failures = 0
    for seed in range(first, first + count):
        report = check(seed)
        if report:
            failures += 1
            print(report, flush=True)
        if seed % 50 == 49:
            torch._dynamo.reset()
    print(f"{count} programs, {failures} differ", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
