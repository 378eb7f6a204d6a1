"""User-defined autograd functions."""
from __future__ import annotations

import contextlib
import functools

from ..core.advice import deprecated
from ..core.interpret import is_recording, recording, top
from ..core.native import GradNode, Tensor, counter, history, mine, state
from ..core.native.objects import FUNCTION
from ..core.tensor import alias, unsaveable
from .passing import DelayedError
from .mutation import refuse_leaves, written as written_into
from .node import FunctionNode, GraphNode, NodeType, kind_of, node_of
from .slow_paths import freed, full_of


def version_of(value):
    """Version counter of a tensor's storage; None without storage: for other values, and tensors of a transform's
    level."""
    return counter(value).version if isinstance(value, Tensor) and value._rush_storage is not None else None


class Context:
    """Context of a function between ``forward`` and ``backward``: ``save_for_backward``, and any attribute."""

    def __init__(self):
        self._saved, self._dirty, self._constant, self._materialize = (), (), (), True
        self._saved_for_forward = None
        self._rush_grad_node = None  # a weak reference to the node
        self.needs_input_grad = ()

    def __getattr__(self, name):
        """Attributes of nodes of the graph, once this is part of one: ``next_functions``, ``name()``,
        ``register_hook``, ``metadata``."""
        node = self._rush_grad_node and self._rush_grad_node() if not name.startswith(
            "__") and "_rush_grad_node" in self.__dict__ else None
        if node is None or not hasattr(GraphNode, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(node_of(node), name)

    def save_for_backward(self, *tensors):
        """Save tensors for the backward pass, which reads ``saved_tensors``."""
        self._saved = tensors

    def save_for_forward(self, *tensors):
        """Save tensors for ``jvp``, which reads ``saved_tensors``."""
        self._saved_for_forward = tensors

    @contextlib.contextmanager
    def forward_mode(self):
        """A block in which ``saved_tensors`` returns those saved for ``jvp``."""
        before = self._saved, self._versions
        self._saved = self._saved_for_forward or ()
        self._versions = tuple(map(version_of, self._saved))
        try:
            yield
        finally:
            self._saved, self._versions = before

    def release(self):
        """Free the saved values after a backward pass without ``retain_graph``."""
        if self._saved:
            self._saved = None

    def remember_versions(self):
        """Store the current versions of the saved tensors."""
        if mine.packing and self._saved:
            from .saved import packed
            self._saved = tuple(t if t is None else packed(t) for t in self._saved)
        self._versions = tuple(map(version_of, self._saved))

    def kept(self) -> tuple:
        """Saved values, packed if there are hooks.  RuntimeError if a backward pass has freed them."""
        if self._saved is None:
            freed(None)
        return self._saved

    to_save = property(lambda self: self._saved)
    dirty_tensors = property(lambda self: self._dirty or None)
    non_differentiable = property(lambda self: self._constant or None)

    @property
    def saved_variables(self):
        """``saved_tensors`` by its old name."""
        deprecated("saved_variables", "saved_tensors", DeprecationWarning)
        return self.saved_tensors

    @property
    def saved_tensors(self):
        """Saved tensors; RuntimeError if one was modified in place since."""
        self.kept()
        for tensor, version in zip(self._saved, self._versions):
            if isinstance(tensor, Tensor) and version_of(tensor) != version:
                raise RuntimeError(
                    f"one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"[{tensor.dtype} {list(tensor.shape)}] is at version {tensor._version}; expected version "
                    f"{version} instead.")
        return tuple(t if t is None or isinstance(t, Tensor) else t.unpacked() for t in self._saved)

    def mark_dirty(self, *tensors):
        """Mark inputs that ``forward`` modified in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Mark outputs that carry no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value):
        """Choose if undefined gradients arrive as zeros (the default) or as None."""
        self._materialize = value


class BackwardClass:
    """Class of a function's nodes, as an attribute of the function."""

    def __get__(self, function, kind):
        return kind_of(f"{kind.__name__}Backward", FunctionNode)


class Function:
    """Subclass with static methods ``forward(ctx, *inputs)`` and ``backward(ctx, *gradients)``; call ``apply``."""

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx, *gradients):
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx, *tangents):
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method or set "
            "generate_vmap_rule=True.")

    generate_vmap_rule = False
    _backward_cls = BackwardClass()
    saves_outputs = False  # ``setup_context`` may save arguments that ``forward`` returned
    collects = False  # in programs ``backward`` gets whole gradients of arguments, for whom the first argument says

    def __call__(self, *args, **kwargs):
        name = type(self).__name__
        raise RuntimeError(
            f"Legacy autograd function with non-static forward method is deprecated: an object of {name} was called. "
            f"Use {name}.apply(...) with a "
            "static forward method.")

    @classmethod
    def rule(cls):
        """The user's derivative, under the name that the class defines."""
        own, other = cls.backward is not Function.backward, cls.vjp is not Function.vjp
        if own and other:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one of them.")
        return cls.backward if own else cls.vjp

    @classmethod
    def check_count(cls, found, count):
        """RuntimeError if the derivative returned too few gradients, or gradients without an argument."""
        if len(found) < count or any(g is not None for g in found[count:]):
            raise RuntimeError(
                f"function {cls.__name__}Backward returned an incorrect number of gradients (expected {count}, got "
                f"{len(found)})")

    @classmethod
    def fitted(cls, k, gradient, meta):
        """Return a gradient with the shape and dtype of its argument: summed over broadcast dimensions. RuntimeError
        for other shapes."""
        if gradient is None:
            return None
        if not isinstance(gradient, Tensor):
            raise RuntimeError(
                f"expected Variable or None (got {type(gradient).__name__}): gradient {k} of {cls.__name__}Backward")
        if gradient.is_sparse or gradient.is_nested:
            return gradient
        if tuple(gradient.shape) != tuple(meta.shape):
            if not expands(meta.shape, gradient.shape):
                raise RuntimeError(
                    f"Function {cls.__name__}Backward returned an invalid gradient at index {k} - got "
                    f"{list(gradient.shape)} but expected shape "
                    f"compatible with {list(meta.shape)}")
            gradient = gradient.sum_to_size(*meta.shape)
        return gradient if gradient.dtype is meta.dtype else gradient.to(meta.dtype)

    @classmethod
    def apply(cls, *args, **kwargs):
        """Run ``forward``, unrecorded, and record ``backward`` for its results."""
        if top() is not None:
            from .custom import answer
            return answer(cls, args)
        return cls.run(args, kwargs)

    @classmethod
    def run(cls, args, kwargs={}):
        """``apply`` on tensors with data."""
        return cls.begun(args, kwargs)[0]

    @classmethod
    def begun(cls, args, kwargs={}):
        """Return the results of ``apply``, and the context of ``forward``."""
        ctx = Context()
        tensors = [a for a in args if isinstance(a, Tensor)]
        recorded = is_recording() and any(t._rush_needs_grad for t in tensors)
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and bool(a._rush_needs_grad) for a in args)
        with recording(False):
            if cls.separate():
                results = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, results)
                cls.check_saved(ctx, args, results)
            else:
                results = cls.forward(ctx, *args, **kwargs)
        ctx.remember_versions()
        return cls._record(ctx, args, results) if recorded else results, ctx

    @classmethod
    def check_saved(cls, ctx, args, results):
        """RuntimeError if ``setup_context`` saved an argument that ``forward`` returned as it is: the result is another
        tensor, with this function in its history."""
        saved = () if cls.saves_outputs else (*ctx._saved, *(ctx._saved_for_forward or ()))
        returned = [r for r in (results if isinstance(results, (tuple, list)) else (results,)) if isinstance(r, Tensor)]
        for tensor in saved:
            if (any(tensor is r for r in returned) and any(tensor is a for a in args)
                    and not any(tensor is d for d in ctx._dirty)
                    and not (tensor._rush_needs_grad and any(tensor is c for c in ctx._constant))):
                raise RuntimeError(
                    "An input that has been returned as-is as output is being saved for backward. This is not supported "
                    "if you override setup_context. You should return and save a view of the input instead, e.g. with "
                    "x.view_as(x) or setup ctx inside the forward function itself.")

    @classmethod
    def separate(cls) -> bool:
        """True if ``setup_context`` fills the context instead of ``forward``."""
        return "setup_context" in dir(cls)

    @classmethod
    def _record(cls, ctx, args, results):
        for saved in ctx._saved:
            if isinstance(saved, Tensor) and saved.is_inference():
                unsaveable(saved)
        several = isinstance(results, (tuple, list))
        outputs = list(results) if several else [results]
        for written in ctx._dirty:
            if any(written is c for c in ctx._constant):
                continue
            refuse_leaves(written)
            if written._base is not None and sum(isinstance(o, Tensor) for o in outputs) > 1:
                raise RuntimeError(
                    f"{cls.__name__} writes into an argument that is a view, and returns more than one Tensor: "
                    "clone() the view first, or split the function in two")
        node = GradNode()
        node.kind, node.extra = FUNCTION, cls.__name__ + "Backward"
        wanted = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        node.edges = tuple(history.edge(args[k]) for k in wanted)
        node.slots = tuple(args[k]._rush_output for k in wanted)
        state.sequence += 1
        node.number = state.sequence
        if state.anomaly:
            state.watch(node, None)
        for k, out in enumerate(outputs):
            if not isinstance(out, Tensor):
                continue
            if any(out is c for c in ctx._constant) or not out.dtype.is_inexact:
                if out._rush_needs_grad:
                    outputs[k] = out.detach()  # an argument, which keeps its history
                continue
            if any(out is a for a in args) and not any(out is d for d in ctx._dirty):
                out = outputs[k] = alias(out)
            out._rush_grad_node, out._rush_output, out._rush_needs_grad = node, k, 1
            if any(out is d for d in ctx._dirty):
                out._rush_seen = counter(out).version
                written_into(out)
        metas = node.outputs = tuple(o._rush_meta if isinstance(o, Tensor) else None for o in outputs)
        inputs = [args[k]._rush_meta for k in wanted]
        backward = cls.rule()

        def function(*gradients):
            if ctx._materialize:
                gradients = [full_of(m, 0) if g is None and m is not None else g for g, m in zip(gradients, metas)]
            found = backward(ctx, *gradients)
            found = found if isinstance(found, tuple) else (found,)
            cls.check_count(found, len(args))
            return tuple(cls.fitted(k, found[k], meta) for k, meta in zip(wanted, inputs))

        function.release, function.unreached, function.context = ctx.release, True, ctx
        node.function, ctx._rush_grad_node, ctx._forward_cls = function, state.weak(node), cls
        return (tuple(outputs) if isinstance(results, tuple) else outputs) if several else outputs[0]


class InplaceFunction(Function):
    """A function that may write into its inputs, by its older name; ``inplace`` is for its own use."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace


FunctionCtx = Context
NodeType.kinds += (Context,)
BackwardCFunction = FunctionNode


def expands(shape, target) -> bool:
    """True if a tensor of one shape can be broadcast to the other."""
    return len(shape) <= len(target) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(target)))


def once_differentiable(fn):
    """Mark a backward that is not differentiable: double backward raises RuntimeError."""
    @functools.wraps(fn)
    def run(ctx, *gradients):
        with recording(False):
            results = fn(ctx, *gradients)
        if not is_recording() or not any(isinstance(g, Tensor) and g._rush_needs_grad for g in gradients):
            return results
        leaves = [alias(g.detach()).requires_grad_() if isinstance(g, Tensor) and g.dtype.is_inexact else g
                  for g in (results if isinstance(results, tuple) else (results,))]
        refused = DelayedError("trying to differentiate twice a function that was marked with @once_differentiable",
                               len(leaves))(*leaves)
        return refused if isinstance(results, tuple) or not isinstance(refused, tuple) else refused[0]

    return run


