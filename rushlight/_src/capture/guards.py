"""Guards: what a compiled segment assumes, and the function that checks it."""
from __future__ import annotations

import functools
import operator
import re
import weakref

from ...nn.modules.module import Module
from ..core.epoch import Epoch
from ..core.meta import Meta
from .module_state import snapshot_of
from .values import Source


class Guard:
    """One assumption: ``check`` is an expression over its sources ({0}, {1}), ``why`` the user's line that made it."""

    __slots__ = ("check", "sources", "why")

    def __init__(self, check: str, sources: tuple, why: str):
        self.check, self.sources, self.why = check, sources, why

    covered = property(lambda self: bool(self.sources) and all(s.covered for s in self.sources))

    def __str__(self):
        return f"{self.check.format(*self.sources)}  # {self.why}"


class Described:
    """A guard as users' filters see it."""

    def __init__(self, guard: Guard, constants):
        self.name, self.orig_guard = ", ".join(map(str, guard.sources)), guard
        self.guard_type = ("TENSOR_MATCH" if "._rush_meta in " in guard.check or "._rush_needs_grad" in guard.check
                           else "EQUALS_MATCH")
        roots = list(map(root_of, guard.sources))
        self.is_module = guard.covered
        self.is_global = not self.is_module and any(isinstance(constants[int(r.suffix[1:])], dict) for r in roots
                                                    if r.suffix[:1] == "k")
        self.has_value, self.value, self.derived_guard_types = False, None, ()


def root_of(source: Source) -> Source:
    """Return the source that a chain of attributes and items starts from."""
    return source if source.parent is None else root_of(source.parent)


class TensorCheck:
    """Predicate: a tensor's metadata match those at capture where they mattered; caches accepted Metas."""

    def __init__(self, meta: Meta, free=frozenset()):
        self.meta, self.free, self.exact, self.seen = meta, free, False, {meta}  # free: dynamic dimensions

    def __call__(self, meta: Meta) -> bool:
        ours = self.meta
        fits = meta is ours if self.exact and not self.free else (
            meta.dtype is ours.dtype and meta.device is ours.device and len(meta.shape) == len(ours.shape)
            and meta.contiguous == ours.contiguous
            and all(a == b or a > 1 < b and (k in self.free or not self.exact)
                    for k, (a, b) in enumerate(zip(meta.shape, ours.shape)))
            and (ours.contiguous or similar(meta, ours)))
        if fits:
            self.seen.add(meta)
        return fits

    def __repr__(self):
        return f"{self.meta}" if self.exact else f"{self.meta.dtype.name}, rank {len(self.meta.shape)}"


def similar(a: Meta, b: Meta) -> bool:
    """True if strides order the dimensions alike."""
    def order(meta):
        return sorted(range(len(meta.shape)), key=lambda k: (-meta.strides[k], k)), [s == 0 for s in meta.strides]
    return order(a) == order(b)


ALWAYS = "", "type("  # text before {0} in checks that evaluate it first, whatever else they evaluate


class GuardLines:
    """Lines of a guard function: each source is loaded once, parents before children.

    Conditions that follow each other are one statement, and a source is loaded within the first condition that reads it
    if that one always evaluates it: the source compiles in half the time that separate statements take.
    """

    def __init__(self):
        self.lines, self.names, self.conditions = [], {}, []

    def load(self, source: Source) -> str:
        """Return an expression for a source that a statement has loaded."""
        text = str(source)
        if source.parent is None:
            return text
        if text not in self.names:
            loaded = source.over(self.load(source.parent))
            self.add(f"{self.name(text)} = {loaded}")
        return self.names[text]

    def load_within(self, source: Source) -> str:
        """Return an expression that loads a source, unless that is done, and is evaluated before others that read
        it."""
        text = str(source)
        if source.parent is None or text in self.names:
            return self.load(source)
        loaded = source.over(self.load(source.parent))
        return f"({self.name(text)} := {loaded})"

    def name(self, text: str) -> str:
        name = self.names[text] = f"a{len(self.names)}"
        return name

    def require(self, guard: Guard):
        others = list(map(self.load, guard.sources[1:]))
        before, found, after = guard.check.partition("{0}")
        if found and before in ALWAYS:
            first = self.load_within(guard.sources[0])
            condition = f"{before}{first}{after.format(self.load(guard.sources[0]), *others)}"
        else:
            condition = guard.check.format(*map(self.load, guard.sources))
        self.conditions.append(f"({condition})")

    def add(self, line: str):
        """Add a statement after the pending conditions."""
        if self.conditions:
            self.lines.append(f"if not ({' and '.join(self.conditions)}): return False")
            self.conditions = []
        self.lines.append(line)

    def finish(self, result: str) -> list:
        """Return all lines; the last returns the result."""
        self.add(f"return {result}")
        return self.lines


class Unowned(weakref.ref):
    """A module that a segment refers to and does not keep alive."""


def weakly(names: dict) -> dict:
    """Return the names of a segment, which keep no module alive."""
    return {name: Unowned(value) if isinstance(value, Module) else value for name, value in names.items()}


def loaded(names: dict, lines) -> list[str]:
    """Return statements that load the modules that these lines name, as ``Guarding.constant_name`` does."""
    words = set(re.findall(r"k\d+", "\n".join(lines)))
    return [f"{name} = HELD[{name!r}]()" for name, value in names.items()
            if isinstance(value, Unowned) and name in words]


@functools.lru_cache(maxsize=128)
def code_of(source: str, file: str):
    """Return the code of a module's source.  Segments of equal layers share a source, with other values of its
    names."""
    return compile(source, file, "exec")


def function(lines, arguments: str, names: dict):
    """Return a function of these lines that is False if one of them raises for a value of another shape."""
    source = "\n".join([f"def guard({arguments}):", "    try:",
                        *(f"        {line}" for line in [*loaded(names, lines), *lines]),
                        "    except (ArithmeticError, AttributeError, KeyError, IndexError, ValueError, TypeError, "
                        "RuntimeError):", "        return False"])
    namespace = {"maximum": max, "minimum": min, "logical_not": operator.not_, **names, "HELD": names}
    exec(code_of(source, "<guards>"), namespace)
    made = namespace.pop("guard")  # no cycle: it is released with its segment
    made.source = source
    return made


class Arming:
    """The guards on modules, and the tensors that were found there (``inputs``).

    They held at ``epoch`` (None: they must be checked), and still do while the epoch is unchanged and ``holds`` says
    that no module has changed in a way that the epoch does not record.
    """

    def __init__(self, guards, sources, inputs, names):
        self.guards, self.sources, self.names = guards, sources, names
        self.inputs, self.check = inputs, None
        self.forget()

    def forget(self):
        """Require a check of the guards at the next call."""
        self.epoch = self.holds = self.snapshot = self.ids = None

    def renew(self) -> bool:
        """Check the guards again, since a module may have changed."""
        epoch, self.epoch = Epoch.value, None
        if self.check is None:
            self.check = self.compiled()
        for _ in range(ATTEMPTS):
            if self.snapshot is not None:
                self.snapshot.take()  # first: changes during the check have to be reported
            found = self.check()
            if found is False:
                return False
            self.inputs, parts = found
            ids = list(map(id, parts))
            if ids == self.ids:
                self.epoch = None if self.snapshot is None else epoch
                return True
            self.snapshot, self.ids = snapshot_of(parts), ids
            self.holds = None if self.snapshot is None else self.snapshot.holds
        return True

    def compiled(self):
        """Return the function that checks the guards; it returns the inputs, and all that was inspected, parents
        first."""
        block, parts = GuardLines(), {}
        for guard in self.guards:
            block.require(guard)
        for source in (*(s for guard in self.guards for s in guard.sources), *self.sources):
            parts |= dict.fromkeys(map(block.load, source.chain()))
        inputs = "".join(f"{block.load(s)}, " for s in self.sources)
        result = f"(({inputs}), ({''.join(f'{part}, ' for part in parts)}))"
        return function(block.finish(result), "", self.names)


ATTEMPTS = 4  # to read modules as they were when their guards were checked, while other threads change them


def guard_function(guards, sources, inputs, names: dict):
    """Return the function ``guard(V)`` of these guards, and the Arming of those that modules cover.

    ``sources``: where in modules the tensors ``inputs`` were found.
    """
    covered = [g for g in guards if g.covered]
    arming = Arming(covered, sources, inputs, names)
    block = GuardLines()
    for guard in guards:
        if not guard.covered:
            block.require(guard)
    if covered or sources:
        block.add("if (arming.epoch != epoch.value or not arming.holds()) and not arming.renew(): return False")
    return function(block.finish("True"), "V", {**names, "arming": arming, "epoch": Epoch}), arming
