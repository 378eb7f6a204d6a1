"""What users call to compile: ``compile``, and how they steer it."""
from __future__ import annotations

import types

from .capture import marks
from .core.native import Tensor
from .nn.modules.module import Module


def compile(model=None, *, fullgraph=False, dynamic=None, backend="rushlight", mode=None, options=None, disable=False):
    """A function or module that runs as compiled graphs, captured when it is called and again when what was assumed no longer holds.

    ``fullgraph`` refuses to run any part uncompiled; ``dynamic`` says whether numbers vary from call to call (None: those
    that were seen to change); ``backend`` is a name or ``backend(graph_module, example_inputs) -> callable``.
    TypeError for what cannot be called.

    >>> import rushlight as torch
    >>> f = torch.compile(lambda x: x.sin() + 1)
    >>> f(torch.zeros(2))
    tensor([1., 1.])
    """
    if model is None:
        return lambda function: compile(function, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable)
    if disable:
        return model
    if not callable(model):
        raise TypeError(f"compile() takes a function or a module, not {type(model).__name__}: call it as compile(model) or @compile")
    from .capture.backends import find
    from .capture.frames import Owner
    owner = Owner(find(backend), fullgraph, dynamic, options if backend not in ("rushlight", "inductor") else None)
    return compiled(model, owner)


def compiled(target, owner):
    """``target`` under an Owner's options."""
    from .capture.frames import wrap
    if isinstance(target, Module):
        return OptimizedModule(target, owner)
    if isinstance(target, types.MethodType):
        return types.MethodType(compiled(target.__func__, owner), target.__self__)
    if isinstance(target, types.FunctionType):
        mark = marks.of(target)
        return wrap(mark.original if isinstance(mark, marks.Compiled) else target, owner)
    if isinstance(target, type):
        target.__init__ = compiled(target.__init__, owner)
        return target
    call = type(target).__call__
    if not isinstance(call, types.FunctionType):
        return wrap(lambda *args, **kwargs: target(*args, **kwargs), owner)
    run = wrap(call, owner)
    return lambda *args, **kwargs: run(target, *args, **kwargs)


class OptimizedModule(Module):
    """A compiled module: the original's attributes and state, and a compiled call."""

    def __init__(self, original, owner):
        from .capture.frames import wrap
        super().__init__()
        self._modules["_orig_mod"] = original
        run = wrap(type(original).__call__, owner)
        object.__setattr__(self, "run", lambda *args, **kwargs: run(original, *args, **kwargs))
        object.__setattr__(self, "owner", owner)

    def __call__(self, *args, **kwargs):
        return self.run(*args, **kwargs)

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        delattr(self._orig_mod, name)

    def __len__(self):
        return len(self._orig_mod)

    def __getitem__(self, index):
        return self._orig_mod[index]

    def __iter__(self):
        return iter(self._orig_mod)

    def forward(self, *args, **kwargs):
        return self.run(*args, **kwargs)

    def extra_repr(self):
        return ""
