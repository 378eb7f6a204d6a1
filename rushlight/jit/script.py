"""What ``script`` and ``trace`` give: the program itself, in a wrapper that can be saved."""
from __future__ import annotations

import functools
import inspect

from .._src.core.advice import deprecated
from .._src.core.native import Tensor
from ..nn.modules.module import Module

WHY = "programs stay Python and are not turned into TorchScript: use torch.compile for speed, torch.export for a graph"


class ScriptFunction:
    """A function that ``script`` or ``trace`` was given: it runs as it is, and can be saved."""

    def __init__(self, function):
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def save(self, f, **kwargs):
        """Writes the function to a file that ``jit.load`` reads."""
        from .storage import save
        save(self, f, **kwargs)

    @property
    def code(self) -> str:
        """Its Python source."""
        return inspect.getsource(self.function)

    @property
    def graph(self):
        raise NotImplementedError(f"a scripted function has no graph: {WHY}")

    def __reduce__(self):
        return ScriptFunction, (self.function,)


class ScriptModule(Module):
    """A module that ``script`` or ``trace`` was given: the original's attributes, state and computation."""

    def __init__(self, original=None):
        super().__init__()
        if original is not None:
            self.__dict__["original"] = original
            for place in ("_parameters", "_buffers", "_modules"):
                self.__dict__[place] = original.__dict__[place]
            self.__dict__["training"] = original.training

    @property
    def original_name(self) -> str:
        return type(self.__dict__.get("original", self)).__name__

    def __call__(self, *args, **kwargs):
        return self.__dict__["original"](*args, **kwargs) if "original" in self.__dict__ else super().__call__(
            *args, **kwargs)

    def forward(self, *args, **kwargs):
        if "original" not in self.__dict__:
            raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')
        return self.original.forward(*args, **kwargs)

    def __getattr__(self, name):
        original = self.__dict__.get("original")
        return super().__getattr__(name) if original is None else getattr(original, name)

    def train(self, mode=True):
        if "original" in self.__dict__:
            self.original.train(mode)
            self.__dict__["training"] = mode
            return self
        return super().train(mode)

    def __setattr__(self, name, value):
        original = self.__dict__.get("original")
        if original is None:
            super().__setattr__(name, value)
        else:
            setattr(original, name, value)

    def save(self, f, **kwargs):
        """Writes the module to a file that ``jit.load`` reads."""
        from .storage import save
        save(self, f, **kwargs)

    @property
    def code(self) -> str:
        """The Python source of its forward."""
        return inspect.getsource(type(self.original).forward)

    @property
    def graph(self):
        raise NotImplementedError(f"a scripted module has no graph: {WHY}")

    def __reduce__(self):
        return rebuilt, (type(self), self.__dict__.get("original"))

    def __deepcopy__(self, memo):
        import copy
        return rebuilt(type(self), copy.deepcopy(self.original, memo))

    def __repr__(self):
        return f"{type(self).__name__}(original_name={self.original_name})"


class RecursiveScriptModule(ScriptModule):
    """What ``script`` gives for a module."""


class TracedModule(ScriptModule):
    """What ``trace`` gives for a module."""


TopLevelTracedModule = TracedModule


def rebuilt(kind, original):
    """A wrapper from what pickling kept of it."""
    return kind(original)


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The program itself, in a wrapper that runs it, saves and loads.  TypeError for what is neither module, function
    nor class.

    >>> import rushlight as torch
    >>> torch.jit.script(lambda x: x + 1)(torch.ones(1))
    tensor([2.])
    """
    deprecated("torch.jit.script", "torch.compile", DeprecationWarning)
    if isinstance(obj, (ScriptModule, ScriptFunction, type)):
        return obj
    if isinstance(obj, Module):
        return RecursiveScriptModule(obj)
    if callable(obj):
        return ScriptFunction(obj)
    raise TypeError(f"script() takes a module, a function or a class, not {type(obj).__name__}")


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5,
          strict=True, _force_outplace=False, _module_class=None,
          _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True):
    """The program itself, run once on its example inputs to see that it runs.  RuntimeError without inputs.

    Unlike TorchScript's, a traced program still takes every branch its inputs ask for.
    """
    deprecated("torch.jit.trace", "torch.export.export", DeprecationWarning)
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError(
            "example_kwarg_inputs should be a dict: trace() needs example_inputs or example_kwarg_inputs")
    given = () if example_inputs is None else (example_inputs,) if isinstance(example_inputs,
                                                                              Tensor) else tuple(example_inputs)
    func(*given, **(example_kwarg_inputs or {}))
    if isinstance(func, (ScriptModule, ScriptFunction)):
        return func
    return TracedModule(func) if isinstance(func, Module) else ScriptFunction(func)


def trace_module(mod, inputs, *args, **kwargs):
    """``trace`` of several methods of a module: each runs once on its example inputs."""
    for name, given in inputs.items():
        getattr(mod, name)(*((given,) if isinstance(given, Tensor) else given))
    return TracedModule(mod)
