"""PyTorch's ``torch._dynamo`` names over capture."""
from __future__ import annotations

from .._src.capture.asking import is_compiling  # noqa: F401
from .._src.compiling import (OptimizedModule, allow_in_graph, assume_constant_result, disable, explain, graph_break,
                              list_backends, lookup_backend, mark_dynamic,  # noqa: F401
                         mark_static, mark_unbacked, maybe_mark_dynamic, register_backend, reset, set_stance)
from .._src.compiling import compile as optimize_function
from .._src.controls import (disallow_in_graph, error_on_graph_break, forbid_in_graph, mark_static_address, run,
                             skip_frame, step_unsupported,  # noqa: F401
                        substitute_in_graph)
from . import backends, config, testing, utils  # noqa: F401

nonstrict_trace, patch_dynamo_config = allow_in_graph, config.patch


def optimize(backend="rushlight", *, nopython=False, dynamic=None, disable=False, **_):
    """``optimize(backend)(function)``: another spelling of ``compile``."""
    return lambda function: optimize_function(function, backend=backend, fullgraph=nopython, dynamic=dynamic,
                                              disable=disable)


def optimize_assert(backend="rushlight", *, dynamic=None, **_):
    """As ``optimize(backend, nopython=True)``."""
    return optimize(backend, nopython=True, dynamic=dynamic)


def export(f, *extra_args, aten_graph=False, **options):
    """``export(f)(*args)``: (graph module, guards) of a function that fits one graph, for tensors of any sizes that f
    does the same for.

    The module takes the arguments of ``f`` and gives its results.  CaptureError where ``f`` does not fit one graph.

    >>> import rushlight as torch
    >>> module, guards = torch._dynamo.export(lambda x: {"y": x.sin() + 1})(torch.zeros(2))
    >>> module(torch.zeros(3))
    {'y': tensor([1., 1., 1.])}
    """
    def run(*args, **kwargs):
        from .._src.core.native import Tensor
        from .._src.core.pytree import tree_map
        from ..export import Dim, export
        from ..export.capturing import captured
        from ..nn import Module

        class Exported(Module):
            """A function, or a module, as a module."""

            def __init__(self):
                super().__init__()
                self.wrapped = f

            def forward(self, *args, **kwargs):
                return self.wrapped(*args, **kwargs)

        def sizes(leaf):
            return {k: Dim.AUTO for k, size in enumerate(leaf.shape) if size > 1} if isinstance(leaf, Tensor) else None

        given = {name: values for name, values in (("args", args), ("kwargs", kwargs)) if values}
        program = export(Exported(), args, kwargs, dynamic_shapes=tree_map(sizes, given))
        return program.module(), captured(f, args, kwargs).guards

    return run(*extra_args) if extra_args else run


def is_dynamo_supported() -> bool:
    """Whether functions can be captured: always."""
    return True
