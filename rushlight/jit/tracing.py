"""``trace`` and ``trace_module``: a program with the example that says what its files have."""
from __future__ import annotations

from .._src.core.advice import deprecated, warn
from .._src.core.native import Tensor
from .._src.core.pytree import tree_leaves
from .._src.core.random import fork_rng
from .._src.ops.closeness import allclose
from ..nn.modules.module import Module
from .kinds import TracerWarning
from .programs import Example
from .script import ScriptFunction, ScriptModule, TracedModule

CONTAINER = (
    "Encountering a {} at the output of the tracer might cause the trace to be incorrect, this is only valid if the "
    "container structure does not change based on the module's inputs. Consider using a constant container instead "
    "(e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you absolutely need this and "
    "know the side effects, pass strict=False to trace() to allow this behavior.")


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5,
          strict=True, _force_outplace=False, _module_class=None,
          _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True):
    """Records the operators that a program calls on its example inputs; calls run these, not the program's Python.
    RuntimeError without inputs.

    What is recorded has the branches of the examples, for inputs of other sizes, too, as far as the program lets them
    vary; its files need none of the program's classes.  Unlike TorchScript's, the Python runs for inputs of sizes or
    dtypes that the record does not hold for, and at each call, with a TracerWarning, where the program fits no one
    graph.  ``strict``: RuntimeError for a dict among the results.  ``check_inputs``: tuples of arguments for which the
    results of the record and of the Python are compared, with a TracerWarning where they differ by more than
    ``check_tolerance`` of their size; none with ``check_trace=False``.
    """
    deprecated("torch.jit.trace", "torch.export.export", DeprecationWarning)
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError(
            "example_kwarg_inputs should be a dict: trace() needs example_inputs or example_kwarg_inputs")
    given = () if example_inputs is None else as_arguments(example_inputs)
    named = dict(example_kwarg_inputs or {})
    check_containers(func(*given, **named), strict)
    if isinstance(func, (ScriptModule, ScriptFunction)):
        return func
    owner = getattr(func, "__self__", None)
    if isinstance(owner, Module) and func.__name__ == "forward":
        func = owner
    example = Example(given, named)
    made = TracedModule(func, example) if isinstance(func, Module) else ScriptFunction(func, example)
    made.record()
    for inputs in check_inputs or () if check_trace else ():
        check_record(made, func, as_arguments(inputs), check_tolerance)
    return made


def as_arguments(inputs) -> tuple:
    """Return example inputs as a tuple: of one tensor, or of the elements."""
    return (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)


def check_record(made, func, inputs, tolerance):
    """Warn where a record and the program that it was made of give other results for these inputs."""
    with fork_rng(devices=()):
        found = tree_leaves(made(*inputs))
    wanted = tree_leaves(func(*inputs))
    if len(found) != len(wanted):
        warn(f"the traced function gives {len(found)} results where the Python function gives {len(wanted)}",
             TracerWarning)
    for k, (one, other) in enumerate(zip(found, wanted), 1):
        if isinstance(other, Tensor) and not allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
            warn(f"Output nr {k}. of the traced function does not match the corresponding output of the Python "
                 f"function, within {tolerance} of its size", TracerWarning)


def check_containers(result, strict):
    """Raise RuntimeError for a dict, and warn of a list, among the results, whose content a graph fixes."""
    if not strict:
        return
    if isinstance(result, (dict, list)):
        kind = "dict" if isinstance(result, dict) else "list"
        text = CONTAINER.format(kind)
        if kind == "dict":
            raise RuntimeError(text)
        warn(text, TracerWarning)
    for part in result if isinstance(result, (list, tuple)) else ():
        check_containers(part, strict)


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
                 _force_outplace=False, _module_class=None, _compilation_unit=None, example_inputs_is_kwarg=False,
                 _store_inputs=True):
    """``trace`` of several methods of a module: each runs once on its example inputs, which are dicts of arguments by
    name with ``example_inputs_is_kwarg``."""
    example = None
    for name, given in inputs.items():
        given, named = ((), dict(given)) if example_inputs_is_kwarg else (as_arguments(given), {})
        check_containers(getattr(mod, name)(*given, **named), strict)
        example = Example(given, named) if name == "forward" else example
    return TracedModule(mod, example)


def _get_trace_graph(f, args=(), kwargs=None, strict=True, _force_outplace=False, return_inputs=False,
                     _return_inputs_states=False):
    """Return the graph of the operators that a module or function calls on its arguments, and its result; then the
    arguments, too, with ``return_inputs``.

    Operators keep their names as they were called, in place or not, whatever ``_force_outplace`` says.
    NotImplementedError for ``_return_inputs_states``.
    """
    if _return_inputs_states:
        raise NotImplementedError("_get_trace_graph(_return_inputs_states=True): states of inputs after the call are "
                                  "not recorded; compare the arguments themselves")
    args = (args,) if isinstance(args, Tensor) else tuple(args)
    kwargs = dict(kwargs or {})
    result = f(*args, **kwargs)
    check_containers(result, strict)
    example = Example(args, kwargs)
    graph = example.graph(f) if isinstance(f, Module) else example.graph_of_function(f)
    return (graph, result, (*args, *kwargs.values())) if return_inputs else (graph, result)
