"""Frozen modules: what follows from their parameters is computed once, and the rest is compiled."""
from __future__ import annotations

import copy
import functools

from .._src.compiling import compile as compiled
from .programs import LoadedProgram
from .script import RecursiveScriptModule, ScriptModule

FREEZING = {"freezing": True}


class FrozenModule(RecursiveScriptModule):
    """A module whose parameters and buffers are constants of a compiled program: batch norms are folded into the
    preceding weights, and weights are prepacked.  It has no state, and only the attributes in ``preserved``."""

    def __init__(self, held, preserved=()):
        super().__init__()
        self.__dict__.update(held=held, preserved=frozenset(preserved), training=False)
        for parameter in held.parameters():
            parameter.requires_grad_(False)
        self.__dict__["run"] = running(held)

    original_name = property(lambda self: getattr(self.held, "original_name", type(self.held).__name__))
    graph = property(lambda self: self.held.graph)
    code = property(lambda self: self.held.code)

    def forward(self, *args, **kwargs):
        return self.run(*args, **kwargs)

    def train(self, mode=True):
        """Changes nothing of what it computes."""
        self.__dict__["training"] = mode
        return self

    def __getattr__(self, name):
        if name in self.__dict__.get("preserved", ()):
            return getattr(self.held, name)
        return super().__getattr__(name)

    def __reduce__(self):
        return FrozenModule, (self.held, tuple(self.preserved))

    def __deepcopy__(self, memo):
        return FrozenModule(copy.deepcopy(self.held, memo), self.preserved)


def running(held: ScriptModule):
    """Return the function that computes an unchanged module."""
    if isinstance(held, LoadedProgram):
        held.compile_with(FREEZING)
        return held.forward
    run = compiled(held.__dict__.get("original", held), options=FREEZING)
    example = held.__dict__.get("example")
    return functools.partial(example.run, run) if example and example.casts else run


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """The module with its parameters as constants: what follows from them alone is computed once, batch norms go into
    weights, and the rest is compiled for the sizes that it is called with.  It is a copy: what happens to the module
    afterwards does not matter to it.

    ``preserved_attrs``: names of attributes and methods that it keeps.  RuntimeError for a module that
    trains, and for one that was neither scripted nor traced; AttributeError for attributes that are not there.

    >>> import rushlight as torch
    >>> model = torch.jit.trace(torch.nn.Linear(3, 2).eval(), torch.ones(1, 3))
    >>> frozen = torch.jit.freeze(model)
    >>> frozen(torch.ones(4, 3)).shape, list(frozen.parameters())
    (torch.Size([4, 2]), [])
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError("Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace "
                           f"to script your 'nn.Module', which is a {type(mod).__name__}.")
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing.")
    if isinstance(mod, FrozenModule):
        return mod
    for name in preserved_attrs or ():
        getattr(mod, name)
    return FrozenModule(copy.deepcopy(mod), preserved_attrs or ())


def optimize_for_inference(mod, other_methods=None):
    """``freeze`` of a module that is not frozen yet; ``other_methods``: methods that it keeps."""
    return freeze(mod, other_methods)
