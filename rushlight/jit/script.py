"""What ``script`` and ``trace`` give: the program itself, in a wrapper that can be saved."""
from __future__ import annotations

import copy
import functools
import inspect

from .._src.core.advice import deprecated
from .._src.core.cached import cached_property
from ..nn.modules.module import Module
from ..nn.parameter import is_lazy
from .errors import run_script
from .kinds import Made

WHY = "programs stay Python and are not turned into TorchScript: use torch.compile for speed, torch.export for a graph"


class Above:
    """Hooks of higher modules: how programs are saved."""

    save = None


class ScriptFunction:
    """A function that ``script`` or ``trace`` was given: it runs as it is, and can be saved.  ``example``: what it was
    traced with."""

    def __init__(self, function, example=None):
        self.function, self.example = function, example
        functools.update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        run = self.runner and self.runner.find(args, kwargs)
        if run is not None:
            return run(*args, **kwargs)
        if self.example:
            return self.example.run(self.function, *args, **kwargs)
        return run_script(self.function, args, kwargs)

    @cached_property
    def runner(self):
        """Return the function that runs the traced operators; None for a scripted one, or one that does not fit a
        graph."""
        return self.example and self.example.runner_of_function(self.function)

    def record(self):
        """Records the operators now, not at the first call."""
        return self.runner

    def save(self, f, **kwargs):
        """Writes the function to a file that ``jit.load`` reads."""
        Above.save(self, f, **kwargs)

    @property
    def code(self) -> str:
        """The operators that it was traced to, as Python; the source of one that runs as Python."""
        return self.runner.programs[0].graph_module.code if self.runner else inspect.getsource(self.function)

    @property
    def graph(self):
        """The operators that it calls on its example.  NotImplementedError for one that was scripted."""
        if self.example is None:
            raise NotImplementedError(f"a scripted function has no graph: {WHY}")
        return self.example.graph_of_function(self.function)

    inlined_graph = graph

    def graph_for(self, *args, **kwargs):
        """``graph``: it is the same for all inputs."""
        return self.graph

    def __reduce__(self):
        return ScriptFunction, (self.function, self.example)


class ScriptModule(Made, Module):
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
        original = self.__dict__.get("original")
        return super().__call__(*args, **kwargs) if original is None else run_script(original, args, kwargs)

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
        Above.save(self, f, **kwargs)

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
        return rebuilt(type(self), copy.deepcopy(self.original, memo))

    def __repr__(self):
        return f"{type(self).__name__}(original_name={self.original_name})"


class RecursiveScriptModule(ScriptModule):
    """What ``script`` gives for a module."""


class TracedModule(ScriptModule):
    """What ``trace`` gives for a module.  ``example``: what it was traced with."""

    def __init__(self, original=None, example=None):
        super().__init__(original)
        self.__dict__["example"] = example

    def __call__(self, *args, **kwargs):
        original, example, runner = self.__dict__["original"], self.__dict__["example"], self.runner
        run = runner and runner.find(args, kwargs)
        if run is not None:
            runner.take_state(run, original)
            return run(*args, **kwargs)
        return example.run(original, *args, **kwargs) if example else original(*args, **kwargs)

    @property
    def runner(self):
        """Return the function that runs the traced operators; None without an example, and for a module that does not
        fit a graph."""
        made = self.__dict__
        if "runner" not in made:
            made["runner"] = made["example"] and made["example"].runner(made["original"])
        return made["runner"]

    record = ScriptFunction.record

    @property
    def graph(self):
        """The operators that it calls on its example."""
        return self.example.graph(self.original)

    inlined_graph = graph

    def graph_for(self, *args, **kwargs):
        """``graph``: it is the same for all inputs."""
        return self.graph

    @property
    def code(self) -> str:
        """The operators that it was traced to, as Python; the source of a module that runs as Python."""
        return self.runner.programs[0].graph_module.code if self.runner else super().code

    def __reduce__(self):
        return rebuilt, (type(self), self.original, self.example)

    def __deepcopy__(self, memo):
        return TracedModule(copy.deepcopy(self.original, memo), self.example)


TopLevelTracedModule = TracedModule


def rebuilt(kind, *parts):
    """A wrapper from what pickling kept of it."""
    return kind(*parts)


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
        lazy = [name for name, value in (*obj.named_parameters(), *obj.named_buffers()) if is_lazy(value)]
        if lazy:
            raise RuntimeError(f"'{type(obj).__name__}' has uninitialized parameters {lazy}. Did you forget to run a "
                               "forward pass?")
        return RecursiveScriptModule(obj)
    if callable(obj):
        return ScriptFunction(obj)
    raise TypeError(f"script() takes a module, a function or a class, not {type(obj).__name__}")
