"""Plans on disk: a process finds what another one traced, differentiated, partitioned, scheduled and assembled, and
loads its machine code.

The name of an entry covers the operator (for a captured graph or a backward: its program), the known properties of the
arguments, and all that planning depends on: the package's sources, the host, threads and settings.  Any change leads to
another name, so nothing has to be invalidated.  A backward is named by its own program, not by the call that it belongs
to: how that was planned (for its own sizes, or generalized) may differ between processes, and with it the arguments of
the backward.  Kernels are stored as references to the objects that ``llvm/jit.py`` caches.
"""
from __future__ import annotations

import array
import functools
import hashlib
import logging
import zlib
from pathlib import Path

from .. import switches
from ..compiler.launch import starts
from ..compiler.target import processor
from ..core import cache, devices, dtypes
from ..core.cached import cached_property
from ..core.encoding import Damaged, Unsaveable, decode, encode, register
from ..core.log import logger
from ..core.native import Op, Plan
from ..core.native.objects import INTO, RUN, SAME, VIEW
from ..core.op import OPS, in_parts
from ..core.settings import settings
from ..graph.graph import Node
from ..graph.regions import Lengthened
from ..graph.save import from_rows, load, rows, save, text_of
from ..ops import attention
from .polymorphic import Settling

log = logger("cache")
KIND = "plan"
MOST = 1 << 30  # bytes of a plan
STORED = (RUN, VIEW, SAME, INTO)
FIELDS = ("kind", "outputs", "sizes", "itemsizes", "temporaries", "inside", "reused", "wanted", "cotangents", "saves",
          "lent", "spare", "lasting", "constants", "passed", "views", "written", "several", "extra",
          "random", "long", "large", "source", "apart", "offset")
# logs of the stages that a stored plan skips
WATCHED = tuple(map(logger, ("graph", "aot", "fusion", "kernels", "memory", "asm", "output")))


@functools.lru_cache(maxsize=None)
def sources() -> str:
    """Return a digest of the package's files."""
    return cache.stamp(Path(__file__).parents[2])


def surroundings() -> str:
    """Return a string of all that planning depends on, apart from the call."""
    chosen = (settings.kernels, settings.max_autotune, settings.regions, settings.vendor, settings.bucket_all_reduces,
              settings.bucket_all_gathers, settings.bucket_reduce_scatters)
    return (f"{sources()} {processor().fingerprint()} {chosen} {dtypes.Defaults.floating} {devices.preferred()} "
            f"{attention.kernels.allowed} {switches.surroundings()}")


def entry(op: Op, key):
    """Return the name of the entry for a call, or None if its plan is only valid in this process."""
    if not settings.store or in_parts(op, key[-1]) or cache.directory() is None:
        return None
    identity = op.traits.get("identity") or (OPS.get(op.name) is op and f"op {op.name}")
    if "identities" in op.caches:
        identity, key = for_sizes(op, key)
    if not identity:
        return None
    try:
        text = text_of(key)
    except Unsaveable:
        return None
    return hashlib.sha256(f"{surroundings()}\n{identity}\n{text}".encode()).hexdigest()


def identify(op: Op, identity: str, sizes=()):
    """Name an operator outside the registry; ``sizes``: of a backward operator for all sizes, those that the name is
    for."""
    if sizes:
        op.caches.setdefault("identities", {})[sizes] = identity
    else:
        op.traits["identity"] = identity


def for_sizes(op: Op, key) -> tuple:
    """Return (identity, key) of a call of a backward operator for all sizes, as the operator for these sizes alone
    would have them: that one is stored."""
    symbols, inputs = op.traits["symbols"], op.traits["inputs"]
    given = [k for k, node in enumerate(inputs) if node is not None and node.name in symbols]
    return op.caches["identities"].get(tuple(key[k] for k in given)), tuple(part for k, part in enumerate(key)
                                                                           if k not in given)


class Underived:
    """The program for the gradients of a call under double backward, derived when it is first run.

    ``given``: the Metas of the call's tensors, and numbers; ``mask``: which require grad; ``inputs``: names of the
      program's inputs.
    ``derive(op, given, mask)`` returns the program.
    """

    def __init__(self, given, mask: int, inputs, op=None, derive=None):
        self.given, self.mask, self.inputs = given, mask, inputs
        self.op, self.derive = op, derive

    @cached_property
    def graph(self):
        return self.derive(self.op, self.given, self.mask)

    def run(self, values):
        return self.graph.run(values)


def underived(given, mask: int, inputs):
    """Return a stored Underived; it can derive only after its operator is set again."""
    return Underived(given, mask, [Node(name, None, weak=weak) for name, weak in inputs])


register(Underived, b"U", lambda one: (one.given, one.mask, [(n.name, n.weak) for n in one.inputs]), underived,
         shared=False)


class Deferred:
    """A stored program that is read when it is first run: the names of its inputs, and which are run-time scalars, are
    known before."""

    def __init__(self, data: bytes, inputs):
        self.data, self.inputs = data, [Node(name, None, weak=weak) for name, weak in inputs]

    @cached_property
    def graph(self):
        return load(self.data)

    def run(self, values):
        return self.graph.run(values)


def deferred(graph):
    """Return the arguments of ``Deferred`` for a program."""
    data = graph.data if isinstance(graph, Deferred) else save(graph.graph if isinstance(graph, (Settling, Lengthened))
                                                               else graph)
    return data, [(n.name, n.weak) for n in graph.inputs]


# --- code -------------------------------------------------------------------------------------------------------------
def reference(address: int, code):
    """Return a reference by which another process finds a kernel.  Unsaveable for one that was not cached."""
    if address in code.callbacks:
        part, inputs, outputs = code.callbacks[address]
        return rows(part), inputs, outputs
    found = target_of(code.device).reference(address)
    if found is None:
        raise Unsaveable("a kernel that is not cached")
    return found


def target_of(kind: str):
    """Return the Target of a device type."""
    return processor() if kind == "cpu" else devices.Registry.of(kind).target()


def code_rows(code) -> tuple:
    """Return code as plain values: each kernel's address replaced by the index of its reference."""
    words, references = array.array("q", code.block), {}
    for at in starts(words):
        words[at] = references.setdefault(words[at], len(references))
    return (words.tobytes(), [reference(a, code) for a in references], code.tables, code.outputs, code.temporaries,
            code.long, code.labels, code.names, getattr(code, "packings", ()), code.device,
            target_of(code.device).fingerprint())


class KernelEvicted(LookupError):
    """A stored plan refers to a kernel that was evicted from the cache; not an error."""


def code_from(saved: tuple):
    """Return code from ``code_rows``.  Raise KernelEvicted if the cache evicted a kernel, LookupError for a program of
    another host."""
    data, references, tables, outputs, temporaries, long, labels, names, packings, device, made_for = saved
    target = target_of(device)
    if target.fingerprint() != made_for:
        raise LookupError(f"a program for another {device} than is here")
    words, addresses, callbacks = array.array("q", data), [], {}
    keep: list = []  # objects that keep the kernels in memory
    for one in references:
        if type(one[0]) is str:
            address = target.load(one)
            if address is None:
                raise KernelEvicted("the cache evicted one of its kernels")
            keep.append(address)
        else:
            part, *metas = from_rows(one[0]), *one[1:]
            address, kernel = target.fallback(part, *metas)
            keep.append(kernel)
            callbacks[address] = part, *metas
        addresses.append(address)
    for at in starts(words):
        words[at] = addresses[words[at]]
    for at, table in tables.items():
        words[at] = table.ctypes.data
    facts = (packings,) if packings else ()
    return target.restored(words, outputs, temporaries, keep, long, labels, names, callbacks, tables, *facts)


# --- plans ------------------------------------------------------------------------------------------------------------
class Stored:
    """A plan read from disk: ``fields`` by name, ``code`` (None for plans without a program), ``backward``: the
    arguments of ``plan.give_backward`` (None without one); or ``inner``: the arguments of ``plan.around``.  LookupError
    if the cache evicted a kernel."""

    def __init__(self, fields, code, backward, inner, conditions=""):
        self.conditions = conditions  # on run-time scalars
        self.fields, self.code = dict(zip(FIELDS, fields)), code and code_from(code)
        self.rows, pure = backward, backward and backward[2]
        self.backward = backward and (Deferred(*backward[0]), backward[1], Deferred(*pure) if type(pure) is tuple
                                      else pure, *backward[3:])
        self.inner = inner and (Stored(*inner[0]), *inner[1:])


def plan_rows(plan: Plan) -> tuple:
    """Return the arguments of ``Stored``.  Unsaveable for a plan that is only valid in this process."""
    if plan.inner:
        inner, *rest = plan.inner
        return (), None, None, (plan_rows(inner), *rest)
    if plan.kind not in STORED:
        raise Unsaveable("it runs in Python")
    backward = plan.derived and plan.derived.caches["made"]
    if backward:
        main, used, pure, *rest = backward
        if plan.constants:  # it is valid for these sizes alone
            sizes = dict(zip(plan.derived.traits["symbols"].values(), plan.constants))
            main, pure = Settling(main, sizes), pure and Settling(pure, sizes)
        backward = deferred(main), used, pure if pure is None or isinstance(pure, Underived) else deferred(pure), *rest
    return [() if field == "constants" else getattr(plan, field)
            for field in FIELDS], plan.code_owner and code_rows(plan.code_owner), backward, None


def inflated(data: bytes) -> bytes:
    """Decompress the output of ``zlib.compress``.  ValueError for more than any plan has."""
    stream = zlib.decompressobj()
    found = stream.decompress(data, MOST)
    if not stream.eof:
        raise ValueError("it does not end")
    return found


def get(name: str):
    """Return the Stored plan of an entry, or None."""
    if any(one.isEnabledFor(logging.DEBUG) for one in WATCHED):
        return None
    data = cache.get(KIND, name)
    if data is None:
        return None
    try:
        return Stored(*decode(inflated(data)))
    except KernelEvicted as reason:
        log.info("a stored plan is made again: %s", reason)
        return None
    except (zlib.error, Damaged, LookupError, ValueError, TypeError, RuntimeError) as reason:
        log.warning("a stored plan is made again: %s: %s", type(reason).__name__, reason)
        return None


def put(name: str, plan: Plan, conditions=""):
    """Store a plan, which is valid for numbers that meet the conditions, if other processes can use it; the plans of
    its backward are then stored, too."""
    try:
        rows = plan_rows(plan)
        cache.put(KIND, name, zlib.compress(encode((*rows, conditions)), 1))
    except Unsaveable as reason:
        log.debug("%s: not kept on disk: %s", plan.op.name, reason)
        return
    inner, (_, _, backward, around) = plan, rows
    while around:
        inner, (_, _, backward, around) = inner.inner[0], around[0]
    if backward:
        name_backward(inner, name, *backward)


def name_backward(plan: Plan, entry: str, main, used: int, pure, chosen, donated=None):
    """Give the backward operators of a plan their identities, from their stored programs.  ``entry``: that of the plan,
    which determines how to derive an Underived."""
    def identity(*parts):
        return f"backward {hashlib.sha256(encode((used, len(plan.saves), *parts))).hexdigest()}"

    identify(plan.derived, identity(*main), plan.constants)
    if plan.donating:
        identify(plan.donating, identity(*main, donated), plan.constants)
    if pure is not None:
        identify(plan.derived.caches["recorded"][0], identity(*(pure if type(pure) is tuple else (entry, pure))),
                 plan.constants)
