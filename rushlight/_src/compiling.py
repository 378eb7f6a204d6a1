"""Public API for compilation: ``compile``, and functions that control it."""
from __future__ import annotations

import functools
import os
import types

from .capture import marks
from .core.interpret import is_checkpoint_valid
from .core.shutdown import allow_imports
from ..nn.modules.module import Module
from ..optim.optimizer import Optimizer


def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, disable=False):
    """Return a function or module that runs as compiled graphs, captured when it is called, and again when a guard
    fails.

    ``fullgraph`` raises an error for parts that would run uncompiled.  ``dynamic``: True treats sizes and numbers as
    dynamic, None those that were seen to change.  ``backend`` is a name or ``backend(graph_module, example_inputs) ->
    callable`` (None: Rushlight's, or the one of ``compiler.set_default_backend``).  For a class, calls of instances are
    compiled.  The environment variable TORCHDYNAMO_DISABLE=1 disables compilation.  ``mode`` "max-autotune" measures
    choices that are otherwise estimated, once, and caches them; ``options`` are a backend's.  TypeError for objects
    that are not callable, RuntimeError for unknown modes and options.

    >>> import rushlight as torch
    >>> f = torch.compile(lambda x: x.sin() + 1)
    >>> f(torch.zeros(2))
    tensor([1., 1.])
    """
    if model is None:
        return lambda function: compile(function, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                        options=options, disable=disable)
    if disable or os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        return model
    if not callable(model):
        raise TypeError(
            f"compile() takes a function or a module, not {type(model).__name__}: call it as compile(model) or "
            "@compile")
    allow_imports()
    from .capture.backends import Default, find
    from .capture.frames import Owner
    from .capture.modes import chosen
    backend = Default.backend if backend is None else backend
    keep = None
    if options is not None:
        options = dict(options)
        keep = options.pop("guard_filter_fn", None)
    owner = Owner(find(backend), fullgraph, dynamic, chosen(backend, mode, options), keep)
    return compiled(model, owner)


def compile_forward(self, *args, **kwargs):
    """Replace this module's forward with a compiled one; the arguments are those of ``compile``."""
    self.forward = compile(self.forward, *args, **kwargs)


Module.compile = compile_forward  # the compiler imports modules, not the other way round


def compiled(target, owner):
    """Compile ``target`` under an Owner's options."""
    from .capture.classes import is_framework
    from .capture.frames import wrap
    if isinstance(target, Module):
        return OptimizedModule(target, owner)
    if isinstance(target, types.MethodType) and target.__func__.__name__ == "step" and isinstance(target.__self__,
                                                                                                  Optimizer):
        return wrap(lambda closure=None: target(closure), owner)
    if isinstance(target, types.MethodType):
        return types.MethodType(compiled(target.__func__, owner), target.__self__)
    if isinstance(target, types.FunctionType):
        if is_framework(target.__module__):  # called as user code calls it
            return wrap(lambda *args, **kwargs: target(*args, **kwargs), owner)
        mark = marks.of(target)
        return wrap(mark.original if isinstance(mark, marks.Compiled) else target, owner)
    if isinstance(target, type):  # calls of instances are compiled, not their construction
        if isinstance(target.__call__, types.FunctionType):
            target.__call__ = compiled(target.__call__, owner)
        return target
    call = type(target).__call__
    if not isinstance(call, types.FunctionType):
        return wrap(lambda *args, **kwargs: target(*args, **kwargs), owner)
    run = wrap(call, owner)
    return lambda *args, **kwargs: run(target, *args, **kwargs)


class OptimizedModule(Module):
    """A compiled module: the original's attributes and state, and a compiled call."""

    def __init__(self, original, owner):
        super().__init__()
        object.__setattr__(self, "owner", owner)
        self._orig_mod = original

    def __call__(self, *args, **kwargs):
        own = self.__dict__
        if own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]:
            return self._rush_call_with_hooks(args, kwargs)
        return self.run(*args, **kwargs)

    def __reduce_ex__(self, protocol):
        return OptimizedModule, (self._orig_mod, self.owner)  # a copy compiles again, under the same options

    @property
    def dynamo_ctx(self):
        """Return a function that compiles another function under the options of this module."""
        return functools.partial(compiled, owner=self.owner)

    @property
    def training(self):
        return self._orig_mod.training

    @training.setter
    def training(self, mode):
        if self.__dict__.get("_modules"):
            self._orig_mod.training = mode

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        if name != "_orig_mod":
            return setattr(self._orig_mod, name, value)
        from .capture.frames import wrap
        run = wrap(type(value).__call__, self.owner)
        self._modules["_orig_mod"] = value
        object.__setattr__(self, "run", lambda *args, **kwargs: run(value, *args, **kwargs))

    def __delattr__(self, name):
        delattr(self._orig_mod, name)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})

    def __len__(self):
        return len(self._orig_mod)

    def __getitem__(self, index):
        return self._orig_mod[index]

    def __iter__(self):
        return iter(self._orig_mod)

    def forward(self, *args, **kwargs):
        return self.run(*args, **kwargs)

    def extra_repr(self):
        return ""


# --- steering capture -------------------------------------------------------------------------------------------------
def disable(fn=None, recursive=True, *, reason=None):
    """Make a function run uncompiled, also when compiled code calls it; usable as ``@disable`` and ``@disable()``.

    >>> import rushlight as torch
    >>> f = torch.compiler.disable(lambda x: x.item())
    >>> torch.compile(lambda x: x + f(x))(torch.ones(()))
    tensor(2.)
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if isinstance(fn, Module):  # hooks are not part of forward
        fn.forward = disable(fn.forward)
        return marks.put(fn, "disabled")
    if isinstance(fn, type):
        for name in ("__init__", "__call__"):
            own = getattr(fn, name)
            if isinstance(own, types.FunctionType):
                setattr(fn, name, disable(own))
        return fn
    mark = marks.of(fn)
    original = mark.original if isinstance(mark, marks.Compiled) else fn
    if isinstance(original, types.FunctionType):
        from .capture.frames import copied
        original = copied(original)
    return marks.put(original, "disabled")


_disable_dynamo = disable  # as libraries with subclasses of tensors call it


def allow_in_graph(fn):
    """Make a function one node of a graph: it runs, and its bytecode is not captured.  TypeError for objects that are
    not callable.

    Backends that run graphs unchanged call it each time; compilers while they trace.  A function that returns no tensor
    is called between programs.
    """
    if not callable(fn) and not isinstance(fn, (list, tuple)):
        raise TypeError(f"allow_in_graph() takes a function, not {type(fn).__name__}")
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    return marks.put(fn, "allowed")


def assume_constant_result(fn):
    """Make capture call a function once and treat its result as a constant."""
    return marks.put(fn, "constant")


def nested_compile_region(fn=None, *, options=None, max_reuse_entries=8, reuse_hash_fn=None):
    """Mark a function or module that is called repeatedly within compiled code, like the layers of a model; usable as
    ``@nested_compile_region``.

    It is inlined like any other callee and fused with adjacent code. Similar calls (equal shapes, dtypes and branches)
    share machine code, and seven or more in a row are planned once.  This holds for unmarked functions, too, so
    ``options``, ``max_reuse_entries`` and ``reuse_hash_fn`` have no effect.  TypeError for objects that are not
    callable.

    >>> import rushlight as torch
    >>> layer = torch.compiler.nested_compile_region(lambda x: x.sin() + 1)
    >>> torch.compile(lambda x: layer(layer(x)))(torch.zeros(2))
    tensor([1.8415, 1.8415])
    """
    if fn is None:
        return nested_compile_region
    if not callable(fn):
        raise TypeError(f"nested_compile_region takes a function or a module, not {type(fn).__name__}")
    return fn


def graph_break(msg=""):
    """Break the graph here in compiled code; do nothing otherwise."""


marks.put(graph_break, "break")
marks.put(is_checkpoint_valid, "constant")  # a program is not captured within a backward pass
marks.put(compile, "following")


def reset():
    """Discard everything compiled: functions are captured again at their next call."""
    from .capture.frames import reset_all
    reset_all()


def list_backends(exclude_tags=("debug", "experimental")) -> list:
    """Names that ``compile(backend=...)`` accepts, without those that have one of these tags.

    >>> import rushlight as torch
    >>> "eager" in torch.compiler.list_backends(), "eager" in torch.compiler.list_backends(exclude_tags=())
    (False, True)
    """
    from .capture.backends import BACKENDS, TAGS
    return sorted(name for name in BACKENDS if set(exclude_tags or ()).isdisjoint(TAGS.get(name, ())))


def register_backend(compiler_fn=None, name=None, tags=()):
    """Register ``backend(graph_module, example_inputs)`` under a name, so that ``compile(backend="name")`` finds it;
    usable as a decorator.

    ValueError for the name of a built-in backend.

    >>> import rushlight as torch
    >>> @torch._dynamo.register_backend
    ... def as_it_is(graph_module, example_inputs):
    ...     return graph_module.forward
    >>> torch.compile(lambda x: x + 1, backend="as_it_is")(torch.zeros(1))
    tensor([1.])
    """
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    from .capture.backends import register
    register(compiler_fn, name or compiler_fn.__name__, tags)
    return compiler_fn


def lookup_backend(compiler_fn):
    """Return a backend by name, as a function of (graph module, example inputs)."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    from .capture.backends import Users, find
    found = find(compiler_fn)
    if isinstance(found, Users):
        return found.function
    if compiler_fn == "eager":
        return lambda module, example_inputs: module.forward
    if compiler_fn == "aot_eager":
        from ..fx.aot import aot_module_simplified, nop
        return lambda module, example_inputs: aot_module_simplified(module, example_inputs, nop)
    from .._inductor.compile_fx import compile_fx
    return compile_fx


def mark_dynamic(tensor, index=None, *, min=None, max=None, hint_override=None, specialize_on=None):
    """Mark sizes of a tensor (all, or those of some dimensions) as dynamic, between ``min`` and ``max``.

    Capture raises ConstraintViolationError if the program needs one size, or if a size is out of bounds.

    >>> import rushlight as torch
    >>> x = torch.ones(4)
    >>> torch._dynamo.mark_dynamic(x, 0)
    >>> torch.compile(lambda x: x + x.shape[0])(x)
    tensor([5., 5., 5., 5.])
    """
    from .capture.constraints import ShapeConstraint, constrain
    constrain(tensor, index, ShapeConstraint(min, max, True))


def maybe_mark_dynamic(tensor, index=None):
    """Like ``mark_dynamic``, but decisions of the program by such a size are guarded, and captured again if they
    change."""
    from .capture.constraints import ShapeConstraint, constrain
    constrain(tensor, index, ShapeConstraint(None, None, False))


def mark_unbacked(tensor, index=None, **_):
    """Like ``maybe_mark_dynamic``."""
    maybe_mark_dynamic(tensor, index)


def mark_static(tensor, index=None):
    """Mark sizes of a tensor as static, also under ``dynamic=True``: each size is captured separately."""
    from .capture.constraints import keep
    keep(tensor, index)


def cudagraph_mark_step_begin():
    """Do nothing on CPUs."""


class CacheInfo:
    """Entries of the disk cache that were saved or loaded, by kind: ``object`` is machine code, ``plan`` a plan of an
    operator or graph."""

    def __init__(self, names):
        self.artifacts: dict = {}
        for name in names:
            self.artifacts.setdefault(name.partition("/")[0], []).append(name)

    def __repr__(self):
        return f"CacheInfo({', '.join(f'{len(names)} of {kind}' for kind, names in self.artifacts.items())})"


def save_cache_artifacts():
    """Return what this process compiled, or found compiled, as bytes for ``load_cache_artifacts`` on another host, and
    a CacheInfo; None if there is nothing.

    >>> import rushlight as torch
    >>> f = torch.compile(lambda x: x.cos() + 2)
    >>> f(torch.zeros(1)), torch.compiler.save_cache_artifacts() is None
    (tensor([3.]), False)
    """
    from .core import cache
    data = cache.carried()
    return (data, CacheInfo(f"{kind}/{name}" for kind, name in sorted(cache.touched))) if data else None


def load_cache_artifacts(serialized_artifacts):
    """Add the result of ``save_cache_artifacts`` to this machine's cache; returns a CacheInfo.  ValueError for other
    bytes.

    The artifacts contain machine code, which runs as if this host had compiled it: load only those from trusted
    sources.
    """
    from .core import cache
    return CacheInfo(cache.unpack(serialized_artifacts))


class set_stance:
    """Set the behavior of compiled functions: globally, in a ``with`` block, or in the calls of a decorated function.

    "default"; "force_eager": uncompiled; "eager_on_recompile": uncompiled if no graph matches; "fail_on_recompile": an
    error then; "eager_then_compile" and "aot_eager_then_compile": the first call uncompiled.  RuntimeError for any
    other.
    """

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False):
        from .capture.stance import Stance
        if stance not in Stance.KNOWN:
            raise RuntimeError(f"unknown stance {stance!r}: choose one of {', '.join(Stance.KNOWN)}")
        self.before, Stance.now = Stance.now, stance

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        from .capture.stance import Stance
        Stance.now = self.before

    def __call__(self, function):
        import functools
        from .capture.stance import Stance
        mine, Stance.now = Stance.now, self.before

        @functools.wraps(function)
        def run(*args, **kwargs):
            with set_stance(mine):
                return function(*args, **kwargs)

        return run


class Explanation:
    """Result of ``explain``: graphs, breaks and guards."""

    def __init__(self, owner, result):
        from ..fx.convert import module_of
        stats = owner.stats
        self.graphs = [module_of(g.graph) for g in stats.graphs]
        self.graph_count, self.break_reasons = len(stats.graphs), list(stats.breaks)
        self.graph_break_count = len(stats.breaks)
        self.ops_per_graph = [[n.op for n in g.graph.nodes] for g in stats.graphs]
        self.op_count = sum(map(len, self.ops_per_graph))
        self.out_guards = [guard for entry in owner.entries.values() for segment in entry.segments
                           for guard in segment.guards]
        self.result = result

    def __str__(self):
        lines = [f"{self.graph_count} graphs, {self.op_count} operators, {self.graph_break_count} breaks, "
                 f"{len(self.out_guards)} guards"]
        lines += [f"break {k}: {reason}" for k, reason in enumerate(self.break_reasons, 1)]
        lines += [f"graph {k}:\n{module.code}" for k, module in enumerate(self.graphs, 1)]
        return "\n".join([*lines, "guards:", *(f"  {guard}" for guard in self.out_guards)])

    __repr__ = __str__


def explain(f, *extra_args, **extra_kwargs):
    """Run ``f`` under capture, ``explain(f)(*args)``, and report graphs, breaks (with line and remedy) and guards.

    >>> import rushlight as torch
    >>> torch._dynamo.explain(lambda x: x + 1)(torch.zeros(2)).graph_count
    1
    """
    from .capture.backends import find
    from .capture.frames import Owner

    def run(*args, **kwargs):
        mark = marks.of(f)
        owner = Owner(find("eager"))
        result = compiled(mark.original if isinstance(mark, marks.Compiled) else f, owner)(*args, **kwargs)
        return Explanation(owner, result)

    return run(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else run
