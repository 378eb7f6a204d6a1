"""The Op class, and the registry of all operators.

An operator is declared once, by its body: a function over simpler operators. Its name, documentation, parameters and
semantics come from that function. A primitive has a kind (``core/kinds.py``) instead of a body.
"""
from __future__ import annotations

import copyreg
import functools
import inspect
import pathlib

from .cached import Recent
from .devices import Registry
from .meta import CONJUGATED, NEGATED
from .native import Op, Plan, Tensor
from .native.objects import CHOICE
from .precisions import classes_of
from .traits import check

OPS: dict[str, Op] = {}
MACHINE_BITS = (1 << 62) - 1
SCALAR = "Scalar"  # annotation of a parameter whose number is a run-time value, not part of the plan


class Scalar:
    """Annotation: a Python number or 0-dim tensor that varies from call to call without a new plan."""


class Shape:
    """Annotation: sizes, which a traced program takes as symbols."""


class Sample:
    """Arguments that show and test an operator: shapes stand for tensors."""

    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs


sample = Sample


def parameters(function):
    """The parameters of a body: names, and the bit mask of those that are run-time scalars."""
    signature = inspect.signature(function)
    mask = 0
    for k, parameter in enumerate(signature.parameters.values()):
        if SCALAR in str(parameter.annotation):
            mask |= 1 << k
    return signature, mask


def named(name: str) -> Op:
    """The declared operator of this name; operators are pickled and copied as their names."""
    return OPS[name]


def is_quantized(value) -> bool:
    """True if a value is a quantized tensor, or has one in it."""
    if isinstance(value, Tensor):
        return value._rush_meta.dtype.scheme is not None
    return isinstance(value, (tuple, list)) and any(map(is_quantized, value))


def body_of(operator: Op, args):
    """The body of an operator, or for quantized tensors its rule, if it has one."""
    rule = operator.rules.get("quantized")
    return rule if rule is not None and is_quantized(args) else operator.body


def looked_up(self, name):
    """Attributes of functions that operators compute: ``__name__``, ``__signature__`` and similar."""
    if name in ("__name__", "__qualname__"):
        return self.name.rpartition(".")[2]
    if name == "__signature__":
        return self.signature
    if name == "__kwdefaults__":
        keywords = [p for p in self.signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
        return {p.name: p.default for p in keywords if p.default is not p.empty} or None
    raise AttributeError(f"operator {self.name!r} has no attribute {name!r}")


@functools.cache
def examples() -> dict:
    """Operator's name -> its example, of ``ops/examples.txt``: a name, and lines as in the interpreter."""
    text = (pathlib.Path(__file__).parents[1] / "ops" / "examples.txt").read_text(encoding="utf-8")
    return {name: lines for name, _, lines in (entry.strip().partition("\n") for entry in text.split("\n\n"))}


class Documentation:
    """``__doc__`` of operators: that of their body, and an example; of the class: its own."""

    def __init__(self, own: str):
        self.own = own

    def __get__(self, operator, kind=None):
        if operator is None:
            return self.own
        told = operator.doc, operator.name in OPS and examples().get(operator.name)
        return "\n\n".join(filter(None, told)) or None


Op.__getattr__ = looked_up
Op.__doc__ = Documentation(Op.__doc__)
copyreg.pickle(Op, lambda operator: (named, (operator.name,)))


def declare(name, body=None, kind=None, signature=None, scalars=0, **traits) -> Op:
    """Makes an operator and enters it in the registry (under a name not yet taken)."""
    if name in OPS:
        raise ValueError(f"operator {name!r} is declared twice")
    made = make(name, body, kind, signature, scalars, True, **traits)
    OPS[name] = made
    return made


def make(name, body=None, kind=None, signature=None, scalars=0, entered=False, **traits) -> Op:
    """An operator outside the registry (derived backwards, a user's compiled function), unless ``entered``.  TypeError
    for traits that are not those of ``traits.py``."""
    check(name, traits)
    made = Op()
    made.name, made.body, made.kind = name, body, kind
    made.signature, made.scalars = signature, scalars & MACHINE_BITS
    made.rules, made.caches = {}, {}
    said = traits.get("autocast", getattr(body, "__globals__", {}).get("AUTOCAST"))  # by it, or by the file it is in
    made.autocast, made.precisions = classes_of(name if entered else "", said)
    made.traits = traits if scalars <= MACHINE_BITS else {**traits, "all_scalars": scalars}
    if signature is not None and "seed" in signature.parameters:
        made.traits["random"] = True
    if in_parts(made) and not traits.get("lean"):
        made.traits = {**made.traits, "declared": made.scalars}
        made.scalars = MACHINE_BITS  # its plan is one for all numbers
    made.plans, made.polymorphic, made.masks = Recent(), Recent(), {}
    made.doc = body is not None and inspect.getdoc(body) or traits.get("doc")
    return made


def forget():
    """Drop all plans, including shape-generic ones, after a change of state that they depend on."""
    for reference in list(Recent.tables.values()):
        table = reference()
        if table is not None:
            table.clear()


def op(body=None, *, samples=(), namespace="", method=None, view=False, **traits):
    """Declares an operator by its body.

    ``namespace``: where users find it ("" for the top level, "nn.functional", "special", "linalg", "fft").
    ``method``: whether it is a Tensor method too (default: when the first parameter is ``input`` at the top level).
    ``view``: its result shares memory with its input where strides allow; one that ``turns`` shows each element as
      another number.
    """
    if body is None:
        return lambda function: op(function, samples=samples, namespace=namespace, method=method, view=view, **traits)
    signature, mask = parameters(body)
    if "pin_memory" in signature.parameters:
        body = pinning(body)
    first = next(iter(signature.parameters), None)
    if method is None:
        method = namespace == "" and first == "input"
    name = traits.pop("name", None) or body.__name__.rstrip("_") if not traits.pop("inplace", False) else body.__name__
    qualified = name if not namespace else f"{namespace}.{name}"
    return declare(qualified, body, None, signature, mask, samples=tuple(samples), namespace=namespace, method=method,
                   view=view, **traits)


def pinning(body):
    """The body of an operator that makes tensors, with a ``pin_memory`` argument that allocates pinned memory. Raises
    RuntimeError if there is no such memory, or the tensor is not on the CPU."""
    @functools.wraps(body)
    def run(*args, pin_memory=False, **kwargs):
        made = body(*args, **kwargs)
        return pinned(made).requires_grad_(made.requires_grad) if pin_memory else made
    return run


def pinned(made):
    """A new tensor in pinned memory, for ``pin_memory=True``; a meta tensor as it is."""
    provider = Registry.of(Registry.present())
    if not made._rush_meta.device.provider.has_data:
        return made
    if provider is None or not provider.count() or "pinned" not in provider.capabilities(provider.current()):
        raise RuntimeError("pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is "
                           "available on this system.")
    return made.detach().pin_memory()


def in_parts(operator: Op, mask=1) -> bool:
    """True if a call runs the operators of its body one by one: composites do, except that those with the trait
    ``planned`` are one program if no interpreter is active, and so are those with ``lean`` if no argument requires a
    gradient (``mask`` is 0)."""
    traits = operator.traits
    return bool(traits.get("composite")) and not traits.get("planned") and bool(mask or not traits.get("lean"))


def declared_scalars(operator: Op) -> int:
    """The parameters that are run-time scalars by declaration, not since calls differ in them: bits as in
    ``Op.scalars``."""
    return operator.traits.get("declared", operator.scalars)


def rule(operator: Op):
    """Overrides one concern of an operator: ``@rule(softmax) def vjp(g, y, input, dim): ...``.

    ``vjp(g, y, *args, **params)`` returns one cotangent (or None) for each tensor argument, in order.
    """

    def enter(function):
        operator.rules[function.__name__] = function
        return function

    return enter


# keywords that mean others
NUMPY = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other", "input": "A",
         "axis0": "dim0", "axis1": "dim1"}


def parted(values, names) -> tuple:
    """(positional arguments, keywords) of a call whose values are in one row; the last ones have these ``names`` (None:
    none has)."""
    positional = len(values) - len(names or ())
    return values[:positional], dict(zip(names or (), values[positional:]))


def applied(function, values, names):
    """Make a call whose values are in one row (see ``parted``)."""
    if not names:
        return function(*values)
    args, kwargs = parted(values, names)
    return function(*args, **kwargs)


def keywords(operator: Op, names: tuple) -> tuple:
    """The operator's own names of the keywords of a call: NumPy's, and further ones that it declares as ``aliases``,
    are accepted too. Raises TypeError if two name one parameter.

    >>> keywords(named("sum"), ("axis", "keepdims"))
    ('dim', 'keepdim')
    """
    parameters = operator.signature.parameters if operator.signature is not None else names
    if all(name in parameters for name in names) or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return names
    aliases = {**NUMPY, **operator.traits.get("aliases", {})}
    found = tuple(aliases[name] if name not in parameters and aliases.get(name) in parameters else name
                  for name in names)
    if len(set(found)) < len(found):
        raise TypeError(f"{operator.name}() got one argument twice, by {' and '.join(names)}")
    return found


SIZES = frozenset(("size", "sizes", "shape", "dims", "repeats"))  # keywords whose items may also be given one by one


def respelled(operator: Op, args: tuple, names: tuple):
    """The arguments of a call, and the names of its keywords, in the operator's own terms: sizes given by keyword are
    positional."""
    names = keywords(operator, names)
    kinds = {p.name: p.kind for p in operator.signature.parameters.values()} if operator.signature is not None else {}
    given = [k for k, name in enumerate(names) if name in SIZES
             and kinds.get(name, inspect.Parameter.VAR_POSITIONAL) is inspect.Parameter.VAR_POSITIONAL]
    if len(given) != 1 or inspect.Parameter.VAR_POSITIONAL not in kinds.values():
        return args, names
    first, (at,) = len(args) - len(names), given
    return (*args[:first], args[first + at], *args[first:first + at],
            *args[first + at + 1:]), names[:at] + names[at + 1:]


def bind(operator: Op, args, kwargs):
    """The arguments by parameter, defaults filled in: a dict in signature order.  TypeError on a mismatch."""
    found = bound_simply(parameters_of(operator), args, kwargs) if OPS.get(operator.name) is operator else None
    if found is not None:
        return found
    try:
        bound = operator.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{operator.name}(): {error}. Its parameters are {operator.signature}.") from None
    bound.apply_defaults()
    return bound.arguments


@functools.lru_cache(maxsize=None)
def parameters_of(operator: Op):
    """(positional names, keyword names, {name: default}) of a registered operator; () if its signature has variadic
    parameters."""
    parameters = operator.signature.parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return ()
    positional = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
    return positional, {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}, {p.name: p.default
                                                                                         for p in parameters}


def bound_simply(parameters, args, kwargs):
    """The result of ``inspect``'s binding, without its cost; None if ``inspect`` must run (and raise)."""
    if not parameters:
        return None
    positional, keywords, defaults = parameters
    given = dict(zip(positional, args))
    if len(args) > len(positional) or not keywords.issuperset(kwargs) or not given.keys().isdisjoint(kwargs):
        return None
    found = {**defaults, **given, **kwargs}
    # by identity: tensors compare elementwise
    return None if any(v is inspect.Parameter.empty for v in found.values()) else found


def turning(tensor, bits: int):
    """A view of a tensor through these bits of ``Meta.turned``; the tensor itself if there are none."""
    for bit, name in ((CONJUGATED, "conj"), (NEGATED, "_neg_view")):
        tensor = OPS[name](tensor) if bits & bit else tensor
    return tensor


def key_of(plan: Plan):
    """Return the key that a plan is found by; None for one that was dropped."""
    return next((key for key, found in (*plan.op.plans.items(), *plan.op.plans.older.items()) if found is plan
                 or found.large == CHOICE and any(one is plan for _, one in found.function.known)), None)
