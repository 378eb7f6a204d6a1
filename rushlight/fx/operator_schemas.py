"""Signatures of functions that graphs call, and arguments under their parameters' names."""
from __future__ import annotations

import inspect
import typing
import warnings

from .._src.core.op import Op
from .node import ArgsKwargsPair, operator_under, signature_of, writes

__all__ = ["ArgsKwargsPair", "check_for_mutable_operation", "create_type_hint", "get_signature_for_torch_op",
           "normalize_function", "normalize_module", "type_matches"]


def check_for_mutable_operation(target, args, kwargs):
    """RuntimeError for an operator that writes into an argument: such calls have no place in a graph of values."""
    if operator_under(target) is not None and (writes(target) or kwargs.get("out") is not None):
        raise RuntimeError(f"Tried to trace mutable operation {target}. FX only supports functional code, so "
                           "operations that mutate operands in-place (e.g. via `out` arguments) are not supported")


def get_signature_for_torch_op(op, return_schemas: bool = False):
    """The signatures of an operator, None for a plain function; with ``return_schemas`` also their schemas.

    >>> import rushlight as torch
    >>> [list(s.parameters) for s in get_signature_for_torch_op(torch.relu)]
    [['input']]
    """
    under = operator_under(op)
    found = [under.signature] if isinstance(under, Op) else None
    schemas = [getattr(op, "_schema", None)] if found and getattr(op, "_schema", None) is not None else None
    return (found, schemas) if return_schemas else found


def bound(signature, args, kwargs, only_keywords):
    """Arguments by parameters, None where they do not fit."""
    try:
        given = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    given.apply_defaults()
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    for name, parameter in signature.parameters.items():
        if parameter.kind in several and not given.arguments[name]:
            del given.arguments[name]
    if not only_keywords:
        count = len(args)
        names = list(given.arguments)
        return ArgsKwargsPair(tuple(given.arguments[n] for n in names[:count]),
                              {n: given.arguments[n] for n in names[count:]})
    return ArgsKwargsPair((), dict(given.arguments))


def normalize_function(target, args, kwargs=None, arg_types=None, kwarg_types=None,
                       normalize_to_only_use_kwargs: bool = False):
    """(args, kwargs) of a call with every parameter, those with defaults too, or None where they do not fit: as many
    positional as were given, or all by name.

    >>> import rushlight as torch
    >>> normalize_function(torch.nn.functional.relu, (1,), normalize_to_only_use_kwargs=True)[1]
    {'input': 1, 'inplace': False}
    """
    under = operator_under(target)
    signature = under.signature if isinstance(under, Op) else signature_of(target)
    return None if signature is None else bound(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(root, target: str, args, kwargs=None, normalize_to_only_use_kwargs: bool = False):
    """``normalize_function`` of the layer of a name.  RuntimeError where there is none."""
    try:
        layer = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!") from error
    return bound(inspect.signature(layer.forward), args, kwargs or {}, normalize_to_only_use_kwargs)


def type_matches(signature_type, argument_type) -> bool:
    """Whether an argument of one type may stand for a parameter of another; a single int for a list of them, too.

    >>> type_matches(typing.Optional[int], int), type_matches(typing.List[int], int), type_matches(float, int)
    (True, True, False)
    """
    origin = typing.get_origin(signature_type)
    if signature_type == argument_type:
        return True
    if origin is typing.Union or type(signature_type).__name__ == "UnionType":
        return any(type_matches(one, argument_type) for one in typing.get_args(signature_type))
    if signature_type in (list[int], typing.List[int]) and argument_type is int:
        return True
    if origin is list:
        inner = typing.get_args(signature_type)[0]
        if typing.get_origin(argument_type) in (list, tuple):
            within = [a for a in typing.get_args(argument_type) if a is not Ellipsis]
            return bool(within) and all(a is inner or isinstance(a, type) and isinstance(inner, type)
                                        and issubclass(a, inner) for a in within)
        return False
    if isinstance(argument_type, type) and isinstance(signature_type, type):
        return issubclass(argument_type, signature_type)
    return False


def create_type_hint(x):
    """The type of lists, or tuples, of these types: of the widest of them, of anything where none is.

    >>> create_type_hint([int, int]), create_type_hint((int, bool))
    (list[int], tuple[int, ...])
    """
    if not isinstance(x, (list, tuple)):
        return x
    if not all(isinstance(one, type) or typing.get_origin(one) is not None for one in x):
        warnings.warn(f"We were not able to successfully create type hint from the type {x}", stacklevel=2)
        return x
    kind = (lambda t: list[t]) if isinstance(x, list) else (lambda t: tuple[t, ...])
    if not x:
        return kind(typing.Any)
    widest = x[0]
    for one in x:
        if issubclass(one, widest):
            continue
        if not issubclass(widest, one):
            return kind(typing.Any)
        widest = one
    return kind(widest)
