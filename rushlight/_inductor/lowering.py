"""Rules of another compiler for single operators.  Operators are compiled by their bodies: rules are kept unused."""
from __future__ import annotations

from rushlight._src.core.advice import warn

lowerings: dict = {}  # overload -> rule; never read


def register_lowering(aten_fn, broadcast=False, type_promotion_kind=None, convert_input_to_bool=False,
                      lowering_dict=lowerings):
    """A decorator that notes a rule for an operator, or for each of a list.  Programs compile the operator's own body,
    which gives the same values, and do not ask for the rule: a warning says so, once for each operator, unless the
    rules are noted in a dictionary of the program's own.

    >>> import rushlight as torch
    >>> rules = {}
    >>> @register_lowering(torch.ops.aten.sin.default, lowering_dict=rules)
    ... def sin(x): ...
    >>> rules[torch.ops.aten.sin.default] is sin
    True
    """
    def note(rule):
        for one in aten_fn if isinstance(aten_fn, (list, tuple)) else (aten_fn,):
            if lowering_dict is lowerings and one not in lowerings:
                warn(f"register_lowering({one}) has no effect here: operators are compiled by their bodies")
            lowering_dict[one] = rule
        return rule

    return note
