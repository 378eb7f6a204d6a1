"""How primitives are declared: name, NumPy meaning, parameters, and the traits their kind asks for."""
from __future__ import annotations

import inspect

from ...core.kinds import Elementwise, P
from ...core.op import declare


def primitive(name, kind, parameters, doc=None, arity=None, **traits):
    """Declares a primitive; ``parameters`` is a function that only shows its signature, of which ``arity`` are
    values."""
    signature = inspect.signature(parameters)
    if arity is None:
        arity = len(signature.parameters) if kind.arity is None else kind.arity
    made = declare(f"prims.{name}", None, kind, signature, doc=doc, arity=arity, **traits)
    setattr(P, name, made)
    return made


def unary(name, numpy, partial=None, result=None):
    return primitive(name, Elementwise(numpy, (lambda y, x: (partial(y, x),)) if partial else lambda y, x: (None,),
                                       result), lambda x: 0)


def binary(name, numpy, partials=None, result=None, alike=tuple):
    return primitive(name, Elementwise(numpy, partials or (lambda y, a, b: (None, None)), result, alike),
                     lambda x, y: 0)
