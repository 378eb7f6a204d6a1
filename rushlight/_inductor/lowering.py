"""Rules of another compiler for single operators.  Here an operator is compiled by its body, so that none is needed."""
from __future__ import annotations

lowerings: dict = {}  # overload -> the rule that a library gave for it


def register_lowering(aten_fn, broadcast=False, type_promotion_kind=None, convert_input_to_bool=False,
                      lowering_dict=None):
    """A decorator that notes a library's rule for an operator in ``lowerings``.  Programs do not ask for it: they
    compile the operator's own body.

    >>> import rushlight as torch
    >>> @register_lowering(torch.ops.aten.sin.default)
    ... def sin(x): ...
    >>> lowerings[torch.ops.aten.sin.default] is sin
    True
    """
    def note(rule):
        for one in aten_fn if isinstance(aten_fn, (list, tuple)) else (aten_fn,):
            (lowerings if lowering_dict is None else lowering_dict)[one] = rule
        return rule

    return note
