"""PyTorch's names for steps of an export."""
from __future__ import annotations

from .._src.core.later import later
from . import export
from .exported_program import ExportedProgram


def _export(mod, args, kwargs=None, dynamic_shapes=None, *, strict=True, preserve_module_call_signature=(),
            pre_dispatch=False, prefer_deferred_runtime_asserts_over_guards=False) -> ExportedProgram:
    """``export``; graphs are always those before autograd and its like are taken out.

    >>> import rushlight as torch
    >>> from rushlight.export._trace import _export
    >>> len(_export(torch.nn.ReLU(), (torch.ones(2),)).graph.find_nodes(op="call_function"))
    1
    """
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
                  preserve_module_call_signature=preserve_module_call_signature,
                  prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards)


def _export_for_training(mod, args, kwargs=None, dynamic_shapes=None, *, strict=True,
                         preserve_module_call_signature=(),
                         prefer_deferred_runtime_asserts_over_guards=False) -> ExportedProgram:
    """``export``, by its name for training."""
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
                  preserve_module_call_signature=preserve_module_call_signature,
                  prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards)


__getattr__ = later(__name__)
