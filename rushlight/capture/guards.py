"""Guards: what a compiled segment assumes, and the function that checks it."""
from __future__ import annotations

from ..core.epoch import Epoch
from ..core.meta import Meta
from .values import Source


class Guard:
    """One assumption: ``check`` is an expression over its sources ({0}, {1}), ``why`` the user's line that made it."""

    __slots__ = ("check", "sources", "why")

    def __init__(self, check: str, sources: tuple, why: str):
        self.check, self.sources, self.why = check, sources, why

    covered = property(lambda self: bool(self.sources) and all(s.covered for s in self.sources))

    def __str__(self):
        return f"{self.check.format(*self.sources)}  # {self.why}"


class TensorCheck:
    """Whether a tensor's metadata are as they were at capture, as far as that mattered; remembers what it accepted."""

    def __init__(self, meta: Meta):
        self.meta, self.exact, self.seen = meta, False, {meta}

    def __call__(self, meta: Meta) -> bool:
        ours = self.meta
        fits = meta is ours if self.exact else (
            meta.dtype is ours.dtype and meta.device is ours.device and len(meta.shape) == len(ours.shape) and meta.contiguous == ours.contiguous
            and all((a == b or a > 1 < b) for a, b in zip(meta.shape, ours.shape)) and (ours.contiguous or similar(meta, ours)))
        if fits:
            self.seen.add(meta)
        return fits

    def __repr__(self):
        return f"{self.meta}" if self.exact else f"{self.meta.dtype.name}, rank {len(self.meta.shape)}"


def similar(a: Meta, b: Meta) -> bool:
    """Whether dimensions lie in memory in the same order."""
    def order(meta):
        return sorted(range(len(meta.shape)), key=lambda k: (-meta.strides[k], k)), [s == 0 for s in meta.strides]
    return order(a) == order(b)


class Arming:
    """What was true of the modules, and at which epoch; ``inputs`` are the tensors found there then."""

    __slots__ = ("epoch", "inputs")

    def __init__(self):
        self.epoch, self.inputs = -1, ()


class Block:
    """Lines of a guard function: each source is loaded once, parents before children."""

    def __init__(self, indent: str, known=None):
        self.indent, self.lines, self.names = indent, [], dict(known or {})

    def load(self, source: Source) -> str:
        text = str(source)
        if source.parent is None:
            return text
        if text not in self.names:
            loaded = f"{self.load(source.parent)}{source.suffix}"
            self.names[text] = name = f"a{len(self.names)}"
            self.lines.append(f"{self.indent}{name} = {loaded}")
        return self.names[text]

    def require(self, guard: Guard):
        condition = guard.check.format(*map(self.load, guard.sources))
        self.lines.append(f"{self.indent}if not ({condition}): return False")


def guard_function(guards, fetched, names: dict):
    """The function ``guard(V)`` of these guards, and its Arming; ``fetched`` are the covered sources of inputs."""
    arming = Arming()
    plain = Block("        ")
    for guard in guards:
        if not guard.covered:
            plain.require(guard)
    covered = Block("            ", plain.names)
    for guard in guards:
        if guard.covered:
            covered.require(guard)
    inputs = ", ".join(map(covered.load, fetched))
    lines = ["def guard(V):", "    try:", *plain.lines]
    if covered.lines or fetched:
        lines += ["        if arming.epoch != epoch.value:", *covered.lines,
                  f"            arming.inputs = ({inputs}{',' if inputs else ''})", "            arming.epoch = epoch.value"]
    lines += ["        return True", "    except (AttributeError, KeyError, IndexError, ValueError, TypeError):", "        return False"]
    source = "\n".join(lines)
    namespace = {**names, "arming": arming, "epoch": Epoch}
    exec(compile(source, "<guards>", "exec"), namespace)
    function = namespace["guard"]
    function.source = source
    return function, arming
