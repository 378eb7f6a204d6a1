"""``trace`` and ``trace_module``: a program with the example that says what its files have."""
from __future__ import annotations

from .._src.core.advice import deprecated
from .._src.core.native import Tensor
from ..nn.modules.module import Module
from .programs import Example
from .script import ScriptFunction, ScriptModule, TracedModule


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5,
          strict=True, _force_outplace=False, _module_class=None,
          _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True):
    """The program itself, run once on its example inputs to see that it runs.  RuntimeError without inputs.

    Unlike TorchScript's, a traced program still takes every branch its inputs ask for.  What is saved, or shown as its
    ``graph``, has the branches of the examples, for inputs of other sizes, too, as far as the program lets them vary;
    it needs none of the program's classes where it is loaded.
    """
    deprecated("torch.jit.trace", "torch.export.export", DeprecationWarning)
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError(
            "example_kwarg_inputs should be a dict: trace() needs example_inputs or example_kwarg_inputs")
    given = () if example_inputs is None else (example_inputs,) if isinstance(example_inputs,
                                                                              Tensor) else tuple(example_inputs)
    named = dict(example_kwarg_inputs or {})
    func(*given, **named)
    if isinstance(func, (ScriptModule, ScriptFunction)):
        return func
    example = Example(given, named)
    return TracedModule(func, example) if isinstance(func, Module) else ScriptFunction(func, example)


def trace_module(mod, inputs, *args, **kwargs):
    """``trace`` of several methods of a module: each runs once on its example inputs."""
    example = None
    for name, given in inputs.items():
        given = (given,) if isinstance(given, Tensor) else tuple(given)
        getattr(mod, name)(*given)
        example = Example(given, {}) if name == "forward" else example
    return TracedModule(mod, example)
