"""Plans on disk: a process finds what another one traced, differentiated, cut, scheduled and assembled, and loads its
machine code.

An entry is named by the operator (for a captured graph, or a backward: by the program that it runs), by what is known
of the arguments, and by all that decides how plans come out: the package's sources, the machine, threads and settings.
Whatever changes leads to another name, so nothing has to be invalidated.  A backward is named by its own program, not
by the call that it belongs to: how that one was planned (for its own sizes, or as one of many) may differ from process
to process, and with it what the backward is given.  Kernels are kept as references to the objects that ``llvm/jit.py``
caches.
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
# logs of what a stored plan skips
WATCHED = tuple(map(logger, ("graph", "aot", "fusion", "kernels", "memory", "asm", "output")))


@functools.lru_cache(maxsize=None)
def sources() -> str:
    """A digest of the package's files."""
    return cache.stamp(Path(__file__).parents[2])


def surroundings() -> str:
    """What decides how a plan comes out, apart from the call."""
    chosen = (settings.kernels, settings.max_autotune, settings.regions, settings.vendor, settings.bucket_all_reduces,
              settings.bucket_all_gathers, settings.bucket_reduce_scatters)
    return (f"{sources()} {processor().fingerprint()} {chosen} {dtypes.Defaults.floating} {devices.preferred()} "
            f"{attention.kernels.allowed} {switches.surroundings()}")


def entry(op: Op, key):
    """The name of the entry for a call, or None where its plan means something in this process only."""
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
    """Names an operator outside the registry; ``sizes``: of a backward operator for all sizes, those that the name is
    for."""
    if sizes:
        op.caches.setdefault("identities", {})[sizes] = identity
    else:
        op.traits["identity"] = identity


def for_sizes(op: Op, key) -> tuple:
    """(identity, key) of a call of a backward operator for all sizes, as the operator for these sizes alone would have
    them: that is what is kept."""
    symbols, inputs = op.traits["symbols"], op.traits["inputs"]
    given = [k for k, node in enumerate(inputs) if node is not None and node.name in symbols]
    return op.caches["identities"].get(tuple(key[k] for k in given)), tuple(part for k, part in enumerate(key)
                                                                           if k not in given)


class Underived:
    """The program that computes the gradients of a call whose gradients are differentiated, derived when it is first
    run.

    ``given``: the Metas of the call's tensors, and numbers; ``mask``: which want gradients; ``inputs``: what names the
      program's inputs.
    ``derive(op, given, mask)`` gives the program.
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
    """What was stored; it derives nothing before it has its operator again."""
    return Underived(given, mask, [Node(name, None, weak=weak) for name, weak in inputs])


register(Underived, b"U", lambda one: (one.given, one.mask, [(n.name, n.weak) for n in one.inputs]), underived,
         shared=False)


class Deferred:
    """A saved program that is read when it is first run: its inputs' names, and which of them are run-time numbers, are
    known before."""

    def __init__(self, data: bytes, inputs):
        self.data, self.inputs = data, [Node(name, None, weak=weak) for name, weak in inputs]

    @cached_property
    def graph(self):
        return load(self.data)

    def run(self, values):
        return self.graph.run(values)


def deferred(graph):
    """What ``Deferred`` takes for a program."""
    data = graph.data if isinstance(graph, Deferred) else save(graph.graph if isinstance(graph, (Settling, Lengthened))
                                                               else graph)
    return data, [(n.name, n.weak) for n in graph.inputs]


# --- code -------------------------------------------------------------------------------------------------------------
def reference(address: int, code):
    """How another process finds a kernel.  Unsaveable for one that was not cached."""
    if address in code.callbacks:
        part, inputs, outputs = code.callbacks[address]
        return rows(part), inputs, outputs
    found = target_of(code.device).reference(address)
    if found is None:
        raise Unsaveable("a kernel that is not cached")
    return found


def target_of(kind: str):
    """The compiler's half of a type of device."""
    return processor() if kind == "cpu" else devices.Registry.of(kind).target()


def code_rows(code) -> tuple:
    """Code as plain values: each kernel's address replaced by the number of its reference."""
    words, references = array.array("q", code.block), {}
    for at in starts(words):
        words[at] = references.setdefault(words[at], len(references))
    return (words.tobytes(), [reference(a, code) for a in references], code.tables, code.outputs, code.temporaries,
            code.long, code.labels, code.names, getattr(code, "packings", ()), code.device,
            target_of(code.device).fingerprint())


class KernelEvicted(LookupError):
    """A stored plan refers to a kernel that the cache no longer has: nothing is wrong, it was trimmed."""


def code_from(saved: tuple):
    """Return the code that ``code_rows`` took apart.  Raise KernelEvicted where the cache lost a kernel, LookupError
    for a program of another machine."""
    data, references, tables, outputs, temporaries, long, labels, names, packings, device, made_for = saved
    target = target_of(device)
    if target.fingerprint() != made_for:
        raise LookupError(f"a program for another {device} than is here")
    words, addresses, callbacks = array.array("q", data), [], {}
    keep: list = []  # what keeps the kernels in memory
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
    """A plan as it came from disk: ``fields`` by name, ``code`` (None for plans without a program), of its backward
    what ``plan.give_backward`` takes (None without one); or what ``plan.around`` takes, in ``inner``.  LookupError
    where the cache lost a kernel."""

    def __init__(self, fields, code, backward, inner, conditions=""):
        self.conditions = conditions  # on run-time numbers
        self.fields, self.code = dict(zip(FIELDS, fields)), code and code_from(code)
        self.rows, pure = backward, backward and backward[2]
        self.backward = backward and (Deferred(*backward[0]), backward[1], Deferred(*pure) if type(pure) is tuple
                                      else pure, *backward[3:])
        self.inner = inner and (Stored(*inner[0]), *inner[1:])


def plan_rows(plan: Plan) -> tuple:
    """What ``Stored`` takes.  Unsaveable for a plan that means something in this process only."""
    if plan.inner:
        inner, *rest = plan.inner
        return (), None, None, (plan_rows(inner), *rest)
    if plan.kind not in STORED:
        raise Unsaveable("it runs in Python")
    backward = plan.derived and plan.derived.caches["made"]
    if backward:
        main, used, pure, *rest = backward
        if plan.constants:  # it is kept for these sizes alone
            sizes = dict(zip(plan.derived.traits["symbols"].values(), plan.constants))
            main, pure = Settling(main, sizes), pure and Settling(pure, sizes)
        backward = deferred(main), used, pure if pure is None or isinstance(pure, Underived) else deferred(pure), *rest
    return [() if field == "constants" else getattr(plan, field)
            for field in FIELDS], plan.code_owner and code_rows(plan.code_owner), backward, None


def inflated(data: bytes) -> bytes:
    """What ``zlib.compress`` made smaller.  ValueError for more than any plan has."""
    stream = zlib.decompressobj()
    found = stream.decompress(data, MOST)
    if not stream.eof:
        raise ValueError("it does not end")
    return found


def get(name: str):
    """The Stored plan of an entry, or None."""
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
    """Keeps a plan, which holds for numbers that meet the conditions, if other processes can make sense of it; the
    plans of its backward are then kept, too."""
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
    """Gives the backward operators of a plan their identities: of all that they run, as it is on disk.  ``entry``: of
    the plan, which says how to derive an Underived."""
    def identity(*parts):
        return f"backward {hashlib.sha256(encode((used, len(plan.saves), *parts))).hexdigest()}"

    identify(plan.derived, identity(*main), plan.constants)
    if plan.donating:
        identify(plan.donating, identity(*main, donated), plan.constants)
    if pure is not None:
        identify(plan.derived.caches["recorded"][0], identity(*(pure if type(pure) is tuple else (entry, pure))),
                 plan.constants)
