"""Compiled functions: entries, where code can start; segments, the code that starts there; and the trampoline between
them."""
from __future__ import annotations

import functools
import types
import warnings
import weakref

from ..core import collector
from ..core.log import logger
from ..core.native import mine, state
from ..core.settings import settings
from . import marks
from .bytecode import COROUTINE, GENERATOR, VARARGS, VARKEYWORDS
from .emit import write_segment
from .segment import ResumePoint
from .errors import Again, CaptureError, RecompileLimitError
from .guards import Unowned
from .machine import Machine
from .constraints import named, constraints_of, still
from .sharing import find_shared, offered
from .stance import Stance, counters

guards_log, breaks_log, recompiles_log, graph_log = logger("guards"), logger("graph_breaks"), logger(
    "recompiles"), logger("output")


class Entry:
    """A point where execution can start: one ResumePoint for each frame on the stack there.  ``native``: it runs
    uncompiled."""

    def __init__(self, owner, places, namespaces, native=False):
        self.owner, self.places, self.namespaces, self.native = owner, places, namespaces, native
        self.forget()

    def forget(self):
        self.segments: list = []
        self.first: dict = {}  # source text of a number -> its value at the first capture
        self.varying: set = set()  # those that were seen to change
        # source text of a tensor -> its last shape; the dimensions whose sizes were seen to change
        self.shapes, self.moving = {}, {}
        self.uncompiled, self.met = self.native, False

    def varies(self, source, value) -> bool:
        """True if a number at this source is treated as varying between calls."""
        text = str(source)
        dynamic = self.owner.dynamic
        if dynamic is False or source.covered or ".shape[" in text:
            return False
        if dynamic or text in self.varying or self.places[0].offset and source.parent is None:
            return True
        if text in self.first and self.first[text] != value:
            self.varying.add(text)
            return True
        self.first[text] = value
        return False

    def free_sizes(self, source, tensor) -> frozenset:
        """Return the dynamic dimensions of a tensor: marked, or seen to change."""
        shape, text = tensor._rush_meta.shape, str(source)
        if source.covered or self.owner.dynamic is False or not tensor._rush_meta.contiguous or type(
                tensor) is state.parameter:
            return frozenset()
        before, self.shapes[text] = self.shapes.get(text, shape), shape
        moved = self.moving.setdefault(text, set())
        moved.update(constraints_of(tensor))
        if len(before) == len(shape):
            moved.update(k for k, (a, b) in enumerate(zip(before, shape)) if a != b)
        return frozenset(k for k, size in enumerate(shape) if size > 1
                         and (self.owner.dynamic or k in moved)) - still(tensor)

    def capture(self, values):
        """Capture a segment for these values and remember it."""
        rules: dict = {}
        breaks = len(self.owner.stats.breaks)
        while True:
            machine = Machine(self, values, rules)
            try:
                with collector.waiting():
                    segment = machine.capture(write_segment)
                break
            except Again as again:
                if again.rule in rules:
                    raise CaptureError(f"capture cannot make progress under the rule {again.rule!r}") from None
                rules[again.rule] = again.value
            finally:
                machine.release()
        segment.code.breaks = self.owner.stats.breaks[breaks:]
        counters["frames"]["total"] += 1
        counters["frames"]["ok"] += 1
        self.enter(segment)
        guards_log.debug("%s\n%s", self.name, "\n".join(map(str, segment.guards)))
        graph_log.debug("%s\n%s", self.name, segment.source)
        return segment

    def enter(self, segment):
        """Move a segment to the front."""
        self.owner.stats.segments += 1
        segment.names = self.places[0].locals + self.places[0].cells
        self.segments.insert(0, segment)

    def share(self, values):
        """Return a segment that another entry captured and that serves these values; None if there is none."""
        segment = find_shared(self, values)
        if segment is None or segment.code.breaks and Stance.break_is_error:
            return None
        if not self.segments:
            self.learn(*segment.code.seen)
        stats = self.owner.stats
        stats.breaks += segment.code.breaks
        if segment.graph is not None:
            stats.graphs.append(segment.graph)
        counters["stats"]["shared_segments"] += 1
        self.enter(segment)
        return segment

    def learn(self, first, varying, shapes, moving):
        """Adopt what another entry of the same program saw to change."""
        self.first, self.varying, self.shapes = dict(first), set(varying), dict(shapes)
        self.moving = {text: set(dimensions) for text, dimensions in moving.items()}

    @property
    def name(self):
        code = self.places[-1].code
        return f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"

    def missed(self, values):
        """No segment applies: capture another, or give up at the limit (None)."""
        if Stance.now != "default":
            return self.stand_still(values)
        if self.segments:
            recompiles_log.debug("%s: %s", self.name, failed(self.segments[0], values))
        if sum(segment.concerns(values) for segment in self.segments) >= settings.recompile_limit:
            self.give_up(values)
            return None
        try:
            segment = self.share(values) or self.capture(values)
        except Exception as error:
            if not Stance.errors_are_suppressed:
                raise
            self.uncompiled = True
            warnings.warn(f"{self.name} runs uncompiled, since capturing it failed: {type(error).__name__}: {error}",
                          stacklevel=4)
            return None
        if segment.guard(values):
            return segment
        if self.owner.fullgraph or settings.verify:
            raise CaptureError(
                f"the guards of {self.name} do not hold for the values they were made from:\n{segment.guard.source}")
        self.segments.remove(segment)
        self.uncompiled = True
        warnings.warn(f"{self.name} runs uncompiled: while it was captured, something changed that it depends on: "
                      f"{failed(segment, values)}", stacklevel=4)
        return None

    def stand_still(self, values):
        """Handle a miss under a stance other than the default."""
        if Stance.now == "fail_on_recompile" and self.segments:
            raise RuntimeError(
                f"{self.name} would be captured again under the stance 'fail_on_recompile': "
                f"{failed(self.segments[0], values)}")
        first, self.met = not self.met, True
        return (None if Stance.now == "eager_on_recompile" or first and Stance.now != "fail_on_recompile"
                else self.share(values) or self.capture(values))

    def give_up(self, values):
        if Stance.limit_is_error:
            raise RecompileLimitError(
                f"{self.name} was captured {len(self.segments)} times. Last: {failed(self.segments[0], values)}")
        self.uncompiled = True
        warnings.warn(
            f"{self.name} was captured {len(self.segments)} times, because its guards keep failing; it runs "
            "uncompiled in future calls. "
            f"Last: {failed(self.segments[0], values)}. Mark what varies with mark_dynamic, pass it as a tensor, or "
            "raise "
            "_dynamo.config.recompile_limit.", stacklevel=4)


def failed(segment, values) -> str:
    """Return the first guard of a segment that fails for these values, in the names of the program."""
    names = {name: value() if isinstance(value, Unowned) else value
             for name, value in segment.guard.__globals__.items()} | {"V": values}
    for guard in segment.guards:
        try:
            holds = eval(guard.check.format(*guard.sources), names)
        except (ArithmeticError, AttributeError, KeyError, IndexError, ValueError, TypeError, RuntimeError):
            holds = False
        if not holds:
            return named(str(guard), segment.names)
    return "no guard alone"


def drive(entry, values):
    """Run from an entry to the return, segment by segment."""
    while entry is not None:
        segment = None
        if not entry.uncompiled and Stance.now != "force_eager" and not mine.modes:
            for segment in entry.segments:
                if segment.guard(values):
                    break
            else:
                segment = entry.missed(values)
        entry, values = run_native(entry, values) if segment is None else segment.run(values, segment.arming.inputs)
    return values


def run_native(entry, values):
    from .resume import run_native
    return run_native(entry, values)


owners = weakref.WeakSet()


def reset_all():
    """Drop every segment."""
    from .backends import operators
    counters.clear()
    operators.clear()
    offered.clear()
    for owner in owners:
        owner.forget()


def copied(function):
    """Return a copy of a function, so that a mark on it does not reach the original."""
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__,
                              function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(made, function)


class Stats:
    """Counts and breaks of the capture of one compiled function."""

    def __init__(self):
        self.segments, self.graphs, self.breaks = 0, [], []


class Owner:
    """One call of ``compile``: its options, the entries of its code, and what was captured."""

    def __init__(self, backend, fullgraph=False, dynamic=None, options=None, keep=None):
        self.backend, self.fullgraph, self.dynamic, self.options = backend, fullgraph, dynamic, options
        self.keep = keep  # (entries that describe guards) -> which are kept
        self.spelled = None  # how exported programs record operators: see Recorder
        self.exporting = False  # for a self-contained graph: results that are views of others are its results, too
        self.entries: dict = {}
        self.functions: dict = {}
        self.stats = Stats()
        owners.add(self)

    @property
    def configuration(self) -> tuple:
        """The settings that captured code depends on: segments serve owners with equal ones."""
        alone = self if self.exporting or self.spelled is not None or (self.options or {}).get("freezing") else None
        return self.backend, self.fullgraph, self.dynamic, self.options, self.keep, alone

    def __reduce__(self):
        return Owner, (self.backend, self.fullgraph, self.dynamic, self.options, self.keep)

    def forget(self):
        """Drop every segment; entries stay, since compiled functions refer to them."""
        self.stats = Stats()
        for entry in self.entries.values():
            entry.forget()

    def entry(self, places, namespaces, native=False) -> Entry:
        key = places, tuple(map(id, namespaces)), native
        found = self.entries.get(key)
        if found is None:
            found = self.entries[key] = Entry(self, places, namespaces, native)
        return found

    def graph(self, graph, recorder):
        """Return the compiled form of a captured graph; its operators run one by one if autograd has to see its
        writes."""
        from .backends import CompiledGraph, eager
        made = CompiledGraph(graph, eager if recorder.history else self.backend, None if recorder.history
                             else self.options, bool(recorder.writers), recorder.plain)
        self.stats.graphs.append(made)
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += len(graph.nodes)
        return made

    def program(self, graph):
        """Return the compiled form of a part of a graph that control flow runs."""
        from .backends import CompiledGraph
        return CompiledGraph(graph, self.backend, self.options)

    def note(self, found):
        """Handle a graph break: an error under ``fullgraph``, else remembered and logged."""
        if self.fullgraph or Stance.break_is_error:
            raise found.error()
        self.stats.breaks.append(found)
        counters["graph_break"][f"{found.code} {found.reason}"] += 1
        breaks_log.debug("%s", found)

    def compiled(self, function):
        """Return a function that could not be inlined as a compiled function under the same options."""
        known = self.functions.get(function)
        if known is None:
            compilable = isinstance(marks.of(function),
                                    (type(None), marks.Compiled)) and not function.__code__.co_flags & (
                                        GENERATOR | COROUTINE)
            inlinable = str(function.__globals__.get("__name__")).split(".")[0] != __name__.split(".")[0]
            known = self.functions[function] = wrap(function, self) if compilable and inlinable else function
        return known


def binder(function):
    """Return a function with the same parameters that returns their values in a tuple (so CPython binds the arguments),
    and their names."""
    code = function.__code__
    count, more = code.co_argcount, code.co_kwonlyargcount
    names = list(code.co_varnames[:count + more])
    defaults, keyword_defaults = function.__defaults__ or (), function.__kwdefaults__ or {}
    parts = []
    for k, name in enumerate(names[:count]):
        parts.append(name + ("=None" if k >= count - len(defaults) else ""))
        if code.co_posonlyargcount and k == code.co_posonlyargcount - 1:
            parts.append("/")
    rest = count + more
    if code.co_flags & VARARGS:
        parts.append("*" + code.co_varnames[rest])
        names.append(code.co_varnames[rest])
        rest += 1
    elif more:
        parts.append("*")
    parts += [name + ("=None" if name in keyword_defaults else "") for name in names[count:count + more]]
    if code.co_flags & VARKEYWORDS:
        parts.append("**" + code.co_varnames[rest])
        names.append(code.co_varnames[rest])
    plain = {name: name if name.isidentifier() else f"_{k}" for k, name in enumerate(names)}
    text = ", ".join(parts)
    for name, better in plain.items():
        text = text.replace(name, better)
    namespace: dict = {}
    exec(f"def called({text}): return ({''.join(plain[n] + ', ' for n in names)})", namespace)
    made = namespace["called"]
    made.__name__, made.__qualname__ = function.__name__, function.__qualname__
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return following(made, function) if function.__defaults__ or function.__kwdefaults__ else made, names


def following(bind, function):
    """Return a binder with the function's defaults at the time of the call."""
    def bound(*args, **kwargs):
        if bind.__defaults__ is not function.__defaults__:
            bind.__defaults__ = function.__defaults__
        if bind.__kwdefaults__ is not function.__kwdefaults__:
            bind.__kwdefaults__ = function.__kwdefaults__
        return bind(*args, **kwargs)

    return bound


def wrap(function, owner: Owner):
    """Return the compiled form of a Python function."""
    code = function.__code__
    if code.co_flags & (GENERATOR | COROUTINE):
        breaks_log.debug("%s is a generator or coroutine: it runs uncompiled", function.__qualname__)
        return function
    bind, names = binder(function)
    shared = [n for n in code.co_cellvars if n in names]
    variables = tuple(n for n in names if n not in shared)
    place = ResumePoint(code, 0, variables, code.co_cellvars + code.co_freevars, (), False, None)
    entry = owner.entry((place,), (function.__globals__,))
    closure = function.__closure__ or ()
    if not code.co_cellvars and not closure:
        def compiled(*args, **kwargs):
            return drive(entry, bind(*args, **kwargs))
    else:
        picked = [names.index(n) for n in variables]
        made = [names.index(n) if n in names else None for n in code.co_cellvars]

        def compiled(*args, **kwargs):
            given = bind(*args, **kwargs)
            cells = [types.CellType() if k is None else types.CellType(given[k]) for k in made]
            return drive(entry, (*[given[k] for k in picked], *cells, *closure))

    functools.update_wrapper(compiled, function)
    compiled.owner = owner
    return marks.put(compiled, marks.Compiled(function))


