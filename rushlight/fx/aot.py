"""Forward and backward of a program as two graphs, each given to a compiler of the user's."""
from __future__ import annotations

from .._src.aot.alias import Recording
from .._src.aot.joint import carries_gradient
from .._src.autograd.function import Function
from .._src.capture.backends import run
from .._src.compiler import pipeline
from .._src.core.interpret import is_recording
from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten, tree_unflatten
from .._src.core.random import default_generator
from .._src.core.tensor import empty
from .._src.eager.arguments import NUMBER_METAS
from .._src.eager.programs import alias_of, own
from ..func.modules import functional_call
from .._src.graph import graph as house
from ..nn import Module
from .._src.ops.slices import region
from .convert import module_of
from .substitution import OperatorSubstitution


class Shown:
    """A result that aliases an input: an input or a view of one, recreated from the input."""

    def __init__(self, node, inputs, source, meta, offset):
        self.place, self.meta, self.offset, self.same = inputs.index(source), node.meta.turning(
            meta.turned), offset, node is source

    def __call__(self, inputs):
        source = inputs[self.place]
        return source if self.same else region(source, self.meta, self.offset)


class Derived:
    """The programs of a body for inputs like these: ``forward`` and (if any input is wanted) ``backward``, and what
    passes between them.

    ``wanted``: positions of the inputs that get gradients; ``carrying``: positions of results that carry them;
      ``drawn``: blocks of random numbers;
    ``twins``: positions of results that are computed once with an earlier one, and are memory of their own
      nevertheless.
    """

    def __init__(self, body, inputs, wanted):
        trace = self.trace = Recording()
        given = [trace.input(x._rush_meta) if isinstance(x, Tensor)
                 else trace.input(NUMBER_METAS[type(x)], "s", weak=True)
                 for x in inputs]
        nodes = [g.node for g in given]
        with trace:
            every = [r.node for r in body(*given)]
            self.stores = [house.Store(own(value), node) for node, value in trace.written()]
            self.shown = {k: Shown(node, nodes, *found) for k, node in enumerate(every)
                          if (found := alias_of(node, nodes)) is not None}
            self.outputs = [node for k, node in enumerate(every) if k not in self.shown]
            self.differentiated(nodes, [k for k in wanted if carries_gradient(nodes[k].meta)])
        self.drawn = trace.drawn

    def differentiated(self, nodes, wanted):
        """Derives the backward program, and cuts the two apart."""
        trace, sources = self.trace, [nodes[k] for k in wanted]
        made = pipeline.run(pipeline.CUTTING,
                            pipeline.Compilation("aot", trace, self.outputs, stores=self.stores, sources=sources))
        d, self.forward = made.derivative, made.graph
        results = d.results if d is not None else made.graph.outputs[:len(self.outputs)]
        self.twins = [k for k, node in enumerate(results)
                      if any(node is results[j] and self.outputs[k] is not self.outputs[j] for j in range(k))]
        self.carrying, self.wanted, self.backward, self.residuals, self.overwritten = [], [], None, [], []
        if d is None:
            return
        self.carrying, self.wanted, self.backward = d.carrying, [nodes.index(s) for s, _ in d.found], d.backward
        positions = {node: len(self.forward.inputs) + k
                     for k, node in reversed(list(enumerate([*results, *d.cut.extras])))}
        positions |= {node: k for k, node in enumerate(self.forward.inputs)}
        self.residuals = [positions[node] for node in d.cut.residuals]  # among inputs, results and extras
        stored = {o.into for o in self.forward.outputs if isinstance(o, house.Store)}
        # which the forward changes
        self.overwritten = [k for k, node in enumerate(self.forward.inputs) if node in stored and k in self.residuals]


def example(node):
    """Return a fake tensor, or a number, like an input of a program."""
    if node.weak:
        return 0 if not node.dtype.is_inexact else 0.0
    return empty(tuple(node.shape), node.dtype, node.meta.strides, "meta")


class Compiled:
    """A body for inputs of one kind: its programs, compiled."""

    def __init__(self, body, inputs, wanted, fw_compiler, bw_compiler):
        self.derived = derived = Derived(body, inputs, wanted)
        self.count = len(derived.outputs)
        drawn = list(default_generator.place) if derived.drawn else []
        self.forward = unboxed(fw_compiler(module_of(derived.forward), [*inputs, *drawn]))
        self.backward = (unboxed(bw_compiler(module_of(derived.backward),
                                             [example(n) for n in derived.backward.inputs]))
                         if derived.backward is not None else None)
        self.function = type("CompiledFunction", (Function,),
                             {"forward": staticmethod(self.run_forward), "backward": staticmethod(self.run_backward)})

    def __call__(self, *inputs):
        results = iter(self.computed(inputs))
        shown = self.derived.shown
        return [shown[k](inputs) if k in shown else next(results) for k in range(self.count + len(shown))]

    def computed(self, inputs):
        """The results that the programs compute."""
        if self.backward is None or not is_recording():
            return self.values(inputs)[1][:self.count]
        results = self.function.apply(*inputs)
        return results if isinstance(results, tuple) else (results,)

    def values(self, inputs):
        """The inputs of the forward program, and what it returns."""
        given = [*inputs, *(default_generator.reserve(self.derived.drawn) if self.derived.drawn else ())]
        results = self.forward(*given)
        return given, tuple(r.clone() if k in self.derived.twins else r for k, r in enumerate(results))

    def run_forward(self, ctx, *inputs):
        before = {k: inputs[k].clone() for k in self.derived.overwritten}
        given, results = self.values(inputs)
        every = [*(before.get(k, value) for k, value in enumerate(given)), *results]
        kept = [every[k] for k in self.derived.residuals]
        ctx.numbers = {k: value for k, value in enumerate(kept) if not isinstance(value, Tensor)}
        ctx.save_for_backward(*(value for value in kept if isinstance(value, Tensor)))
        ctx.mark_non_differentiable(*(r for k, r in enumerate(results[:self.count]) if k not in self.derived.carrying))
        ctx.inputs = len(inputs)
        return results[:self.count] if self.count != 1 else results[0]

    def run_backward(self, ctx, *gradients):
        tensors = iter(ctx.saved_tensors)
        kept = [ctx.numbers[k] if k in ctx.numbers else next(tensors) for k in range(len(self.derived.residuals))]
        found = self.backward(*kept, *(gradients[k].contiguous() for k in self.derived.carrying))
        out = [None] * ctx.inputs
        for k, gradient in zip(self.derived.wanted, found):
            out[k] = gradient
        return tuple(out)


def kind_of(inputs) -> tuple:
    """Return the key of a program: metadata of the inputs, and their requires_grad."""
    recording = is_recording()
    return tuple((x._rush_meta, bool(recording and x.requires_grad)) if isinstance(x, Tensor) else type(x)
                 for x in inputs)


def nop(module, example_inputs):
    """Runs a graph as it is."""
    return module.forward


def make_boxed_func(f):
    """A function that takes its arguments in one list, so that its caller keeps none of them alive."""
    def boxed(arguments):
        return f(*arguments)

    boxed._boxed_call = True
    return boxed


def make_boxed_compiler(compiler):
    """A compiler whose results take their arguments in one list."""
    return lambda module, example_inputs: make_boxed_func(compiler(module, example_inputs))


def unboxed(f):
    """A compiled function that takes its arguments one by one."""
    return (lambda *arguments: f(list(arguments))) if getattr(f, "_boxed_call", False) else f


def min_cut_rematerialization_partition(joint_module, *_, **__):
    """For ``partition_fn``: the min-cut partition, which is always used."""
    raise RuntimeError("programs are cut before users see them: give this function as partition_fn")


default_partition = min_cut_rematerialization_partition


def memory_efficient_fusion(fn, **_):
    """A function or module whose forward and backward are compiled together."""
    from .._src.compiling import compile
    return compile(fn)


def aot_function(fn, fw_compiler, bw_compiler=None, partition_fn=None, decompositions=None, num_params_lifted=0, **_):
    """A function whose forward and backward are compiled ahead: each ``compiler(graph_module, example_inputs)`` gets a
    graph of primitives.  ``decompositions``: overload -> function that is traced in its place.

    >>> import rushlight as torch
    >>> from rushlight._functorch.aot_autograd import aot_function
    >>> seen = []
    >>> f = aot_function(lambda x: x.sin().sum(), lambda module, inputs: seen.append(module) or module)
    >>> x = torch.zeros(2, requires_grad=True)
    >>> f(x).backward()
    >>> x.grad, len(seen)
    (tensor([1., 1.]), 2)
    """
    known: dict = {}
    run = substituting(fn, decompositions) if decompositions else fn

    def run_compiled(*args, **kwargs):
        leaves, spec = tree_flatten((args, kwargs))
        key = kind_of(leaves), repr(spec), tuple(x for x in leaves if not isinstance(x, Tensor))
        if key not in known:
            known[key] = specialised(run, leaves, spec, fw_compiler, bw_compiler or fw_compiler)
        compiled, shape = known[key]
        return tree_unflatten(compiled(*(x for x in leaves if isinstance(x, Tensor))), shape[0])

    return run_compiled


def substituting(fn, table):
    """``fn`` with the functions of a table in the place of operators."""
    def run(*args, **kwargs):
        with OperatorSubstitution(table):
            return fn(*args, **kwargs)

    return run


def specialised(fn, leaves, spec, fw_compiler, bw_compiler):
    """``fn`` compiled for arguments like these; and how its results are nested."""
    shape, tensors = [], [x for x in leaves if isinstance(x, Tensor)]

    def body(*values):
        values = iter(values)
        args, kwargs = tree_unflatten([next(values) if isinstance(x, Tensor) else x for x in leaves], spec)
        results, nesting = tree_flatten(fn(*args, **kwargs))
        shape[:] = [nesting]
        return results

    wanted = [k for k, (_, wants) in enumerate(kind_of(tensors)) if wants]
    return Compiled(body, tensors, wanted, fw_compiler, bw_compiler), shape


def aot_module(mod: Module, *args, **kwargs):
    """As ``aot_function``, for a module: a module with the same parameters."""
    run = aot_function(lambda state, given, keywords: functional_call(mod, state, given, keywords), *args, **kwargs)

    class AOTModule(Module):
        """A module whose forward and backward were compiled ahead."""

        def __init__(self):
            super().__init__()
            self.orig_module = mod

        def forward(self, *given, **keywords):
            return run({**dict(mod.named_parameters()), **dict(mod.named_buffers())}, given, keywords)

    return AOTModule()


def aot_module_simplified(mod, args, fw_compiler, bw_compiler=None, partition_fn=None, decompositions=None, **options):
    """As ``aot_function``, for a graph module that takes its parameters as inputs: how backends are written."""
    return aot_function(lambda *inputs: mod(*inputs), fw_compiler, bw_compiler, partition_fn, decompositions)


def eagerly(graph: house.Graph):
    """A captured program as its forward and backward programs, run operator by operator; as it is, where it writes into
    inputs or returns views of them."""
    known: dict = {}

    def call(*inputs):
        sizes = tuple(x if type(x) is int else None for x in inputs)  # a program is made for sizes as they are
        given = [x for x in inputs if type(x) is not int]
        key = kind_of(given), sizes
        if key not in known:
            known[key] = compiled(*key, given)
        return tuple(known[key](*given))

    def compiled(kinds, sizes, given):
        def body(*values):
            rest = iter(values)
            return run(graph, [next(rest) if size is None else size for size in sizes])

        made = Compiled(body, given, [k for k, kind in enumerate(kinds) if isinstance(kind, tuple) and kind[1]], nop,
                        nop)
        return body if made.derived.stores or made.derived.shown else made

    return call
