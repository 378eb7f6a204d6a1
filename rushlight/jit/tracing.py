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
    """Records the operators that a program calls on its example inputs; calls run these, not the program's Python.
    RuntimeError without inputs.

    What is recorded has the branches of the examples, for inputs of other sizes, too, as far as the program lets them
    vary; its files need none of the program's classes.  Unlike TorchScript's, the Python runs for inputs of sizes or
    dtypes that the record does not hold for, and at each call, with a TracerWarning, where the program fits no one
    graph.
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
    made = TracedModule(func, example) if isinstance(func, Module) else ScriptFunction(func, example)
    return made if made.runner else made  # recorded now, not at the first call


def trace_module(mod, inputs, *args, **kwargs):
    """``trace`` of several methods of a module: each runs once on its example inputs."""
    example = None
    for name, given in inputs.items():
        given = (given,) if isinstance(given, Tensor) else tuple(given)
        getattr(mod, name)(*given)
        example = Example(given, {}) if name == "forward" else example
    return TracedModule(mod, example)
