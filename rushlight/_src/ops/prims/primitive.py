"""Declaration of primitives: name, NumPy reference implementation, parameters, and the traits that their kind needs."""
from __future__ import annotations

import inspect

from ...core.kinds import Elementwise, P
from ...core.op import declare


def primitive(name, kind, parameters, doc=None, arity=None, **traits):
    """Declare a primitive; ``parameters`` is a function that only provides the signature, and ``arity`` the number of
    values among its parameters."""
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
