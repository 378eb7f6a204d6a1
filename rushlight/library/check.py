"""Tests of custom operators: consistency of their rules with their results."""
from __future__ import annotations

from .._src.core import devices
from .._src.core.meta import Meta
from .._src.core.native import Tensor
from .._src.core.tensor import empty_of

TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """A rule of an operator does not agree with what it computes."""


def opcheck(op, args, kwargs=None, *, test_utils=TESTS, raise_exception=True, atol=None, rtol=None) -> dict:
    """Runs an operator on sample arguments and compares its rules with what it does: a dict of test name to "SUCCESS".

    ``test_schema``: it writes into what its schema says, and into nothing else; ``test_autograd_registration``: a
      gradient is
    registered where arguments want one; ``test_faketensor``: the fake rule gives the right shapes and dtypes;
    ``test_aot_dispatch_dynamic``: compiled, it gives the same results and gradients, within ``rtol`` and ``atol``
      (both or none).  OpCheckError where one fails (or,
      with
    ``raise_exception=False``, the error as the dict's value).

    >>> import rushlight as torch
    >>> @torch.library.custom_op("readme::same", mutates_args=())
    ... def same(x: torch.Tensor) -> torch.Tensor:
    ...     return x.clone()
    >>> same.register_fake(lambda x: torch.empty_like(x)) and None
    >>> torch.library.opcheck(same, (torch.ones(2),), test_utils="test_faketensor")
    {'test_faketensor': 'SUCCESS'}
    """
    from . import operator_of
    if (rtol is None) != (atol is None):
        raise ValueError("opcheck(op, ...): if you specify one of rtol/atol, you must specify both")
    custom, kwargs = operator_of(op), kwargs or {}
    found = {}
    for name in (test_utils,) if isinstance(test_utils, str) else test_utils:
        if name not in CHECKS:
            raise ValueError(f"opcheck(): there is no test {name!r}; choose from {list(CHECKS)}")
        try:
            CHECKS[name](custom, args, kwargs, *((rtol, atol) if name in COMPARING else ()))
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {type(error).__name__}: {error}") from error
            found[name] = error
    return found


def flat(value):
    """The tensors within tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)
    elif isinstance(value, dict):
        yield from flat(list(value.values()))


def fresh(value):
    """Arguments with copies of their tensors."""
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(map(fresh, value))
    return {k: fresh(v) for k, v in value.items()} if isinstance(value, dict) else value


def close(a, b, rtol, atol) -> bool:
    """True if two tensors have one shape and dtype, and elements that are equal, NaN alike, or within tolerance."""
    rtol, atol = (1e-4, 1e-5) if rtol is None else (rtol, atol)
    return a.shape == b.shape and a.dtype is b.dtype and bool(((a == b) | (a - b).abs().le(atol + rtol * b.abs())
                                                               | ((a != a) & (b != b))).all())


def check_schema(custom, args, kwargs):
    given = custom.arguments(fresh(args), fresh(kwargs))
    before = fresh(dict(given))
    results = list(flat(custom.op(**given)
                        if all(p.kind is not p.POSITIONAL_ONLY for p in custom.schema.signature.parameters.values())
                        else custom.op(*given.values())))
    for name, value in given.items():
        for now, then in zip(flat(value), flat(before[name])):
            same = bool(((now == then) | ((now != now) & (then != then))).all())
            if not same and name not in custom.schema.mutated:
                raise AssertionError(
                    f"the argument {name} was written into, which the schema does not say: add it to mutates_args")
            if any(r.data_ptr() == now.data_ptr() and now.numel() for r in results):
                raise AssertionError(f"a result shares memory with the argument {name}: return a clone()")


def check_registration(custom, args, kwargs):
    wants = any(t.requires_grad for t in flat((args, kwargs)))
    if wants and custom.rules.backward is None and not any(k in custom.rules.kernels
                                                           for k in ("Autograd", "CompositeImplicitAutograd")):
        raise AssertionError("an argument requires a gradient, but no gradient is registered: use register_autograd")


def check_fake(custom, args, kwargs):
    def faked(value):
        if isinstance(value, Tensor):
            return empty_of(Meta(tuple(value.shape), value._rush_meta.strides, value.dtype, devices.meta))
        if isinstance(value, (list, tuple)):
            return type(value)(map(faked, value))
        return value
    real = list(flat(custom.op(*fresh(args), **fresh(kwargs))))
    fake = list(flat(custom.python(custom.kernel([empty_of(Meta.of((1,), real[0].dtype, devices.meta))]) if real
                                   else lambda *a, **k: (), list(
        custom.arguments(faked(args), {k: faked(v) for k, v in kwargs.items()}).values()))))
    if [(tuple(t.shape), t.dtype) for t in real] != [(tuple(t.shape), t.dtype) for t in fake]:
        raise AssertionError(
            f"the operator gives {[(list(t.shape), t.dtype) for t in real]}, its fake rule "
            f"{[(list(t.shape), t.dtype) for t in fake]}")


def check_compiled(custom, args, kwargs, rtol=None, atol=None):
    """Raises unless the operator, compiled, gives the results and gradients that it gives otherwise."""
    from .._src.compiling import compile

    def plain(args, kwargs):
        return custom.op(*args, **kwargs)

    plain.__module__ = "opcheck"  # so that capture takes it for a function of the user
    found = []
    for call in (plain, compile(plain, fullgraph=True)):
        a, k = fresh(args), fresh(kwargs)
        results = list(flat(call(a, k)))
        loss = [r.sum() for r in results if r.requires_grad]
        if loss:
            sum(loss[1:], loss[0]).backward()
        found.append([*(r.detach() for r in results), *(t.detach() for t in flat((a, k))),
                      *(t.grad for t in flat((a, k)) if t.grad is not None)])
    if len(found[0]) != len(found[1]) or not all(close(a, b, rtol, atol) for a, b in zip(*found)):
        raise AssertionError("compiled, the operator gives other results or gradients than uncompiled")


CHECKS = {"test_schema": check_schema, "test_autograd_registration": check_registration, "test_faketensor": check_fake,
          "test_aot_dispatch_dynamic": check_compiled,
          "test_aot_dispatch_static": check_compiled}
COMPARING = "test_aot_dispatch_dynamic", "test_aot_dispatch_static"
