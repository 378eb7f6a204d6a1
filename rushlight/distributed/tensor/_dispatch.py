"""Operator dispatch of DTensors."""
from __future__ import annotations

import functools
import logging
import sys
import threading
from types import NoneType

import rushlight as torch

from ..._src.autograd.mutation import ViewStep, repeat_views
from ..._src.capture.marks import follow
from ..._src.core.advice import warn
from ..._src.core.exchange import NoMemoryError
from ..._src.core.interpret import Interpreter, Suspended, recording, top
from ..._src.core.native import counter, mine, sharing
from ..._src.core.op import OPS, op
from ..._src.core.random import default_generator
from ..._src.core.tensor import Tensor
from ..._src.eager.arguments import NUMBER_METAS, calls_mask
from ..._src.transforms.level import map_results, written
from . import transport
from ._dtensor_spec import find_spec
from .layout import box
from .placement_types import Partial, Replicate
from .programs import Planner, ShardedProgram, Untraceable, written_down
from .transfer import COUNTS

log = logging.getLogger("rushlight.sharding")
MOST = 4096  # programs that are remembered
PROGRAMS: dict = {}
CUSTOM: dict = {}  # operator -> a user's rule (experimental.register_sharding)


class ViewWrittenError(NotImplementedError):
    """A detached view of a DTensor in memory of its own, or its base, is written: the other would not see the write."""


class Inside(threading.local):
    """This thread's depth in bodies of operators; in a body, tensors that are not DTensors are replicated."""

    depth = 0
    losses = 0  # blocks in which targets and weights of losses are replicated, too


inside = follow(Inside())


class Drawing(Interpreter):
    """A block in which random operators draw the same values as in one process: the first process of the mesh
    broadcasts its offset in the RNG stream."""

    def __init__(self, mesh):
        self.mesh = mesh

    def call(self, op, args, kwargs):
        if opens(op) and not op.traits.get("fresh"):
            return op.body(*args, **kwargs)  # which draws here
        with Suspended(self):
            return op(*args, **kwargs)

    def reserve(self, blocks: int):
        outer = next((i for i in reversed(mine.stack) if i.reserve is not None and not isinstance(i, Drawing)), None)
        if outer is not None:
            if not outer.breaks:
                raise NotImplementedError("random numbers of a DTensor within a traced program: its processes agree on "
                                          "the position in the stream at each call; draw them outside of the program")
            return outer.reserve(blocks, self.mesh, self.agree)  # the program calls ``agree`` when it runs
        own = default_generator.place
        first = not any(self.mesh.get_coordinate())
        found = self.agree(*(default_generator.reserve(blocks) if first else own))
        # a process with an RNG stream of its own, which advances alike
        if not first and found == tuple(default_generator.place):
            default_generator.reserve(blocks)
        return found

    def agree(self, seed: int, position: int) -> tuple:
        """Return the (seed, position) of the first process."""
        found = seed, position
        for k in range(self.mesh.ndim):
            found = transport.told(found, self.mesh.get_group(k))
        return tuple(found)


class Body:
    """A block within the body of an operator, or of the backward of one."""

    def __enter__(self):
        inside.depth += 1

    def __exit__(self, *error):
        inside.depth -= 1


def flat_tensors(values, found=None) -> list:
    """Tensors among arguments, in order, those in lists too."""
    found = [] if found is None else found
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            flat_tensors(value, found)
    return found


@functools.cache
def kind():
    """Return the class DTensor, which is defined after this module."""
    from ._api import DTensor
    return DTensor


BELOW = tuple(f"{__name__.partition('.')[0]}.{room}" for room in ("_src.eager", "_src.autograd", "_src.core", "_ops",
                                                                  "distributed.tensor"))


def by_the_package() -> bool:
    """True if a function of this package, not the program, has called the current operator: tensors that such a
    function makes are replicated."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(BELOW):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").startswith(f"{__name__.partition('.')[0]}.")


# those that loss_parallel() is about
LOSSES = {f"nn.functional.{name}" for name in ("cross_entropy", "nll_loss", "linear_cross_entropy")}


def meshes_of(op, tensors):
    """Return the mesh of a call.  RuntimeError for several, and for plain tensors among distributed ones."""
    DTensor = kind()
    mesh = next(t for t in tensors if isinstance(t, DTensor))._spec.mesh
    for t in tensors:
        if not isinstance(t, DTensor):
            alike = inside.depth or inside.losses and op.name in LOSSES
            if alike or not t.dim() or by_the_package():
                continue
            if t.numel() == 1:
                warn("Found a non-scalar tensor with numel=1 and ndim!=0, we are implicitly creating a replicated "
                     "DTensor "
                     "for it. However, please consider changing it to a scalar tensor or explicitly create a DTensor "
                     "under distributed environment.")
            else:
                raise RuntimeError(
                    "got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling "
                    "distributed operators! A tensor of shape "
                    f"{list(t.shape)} is none: use distribute_tensor(), or DTensor.from_local().")
        elif t._spec.mesh is not mesh and t._spec.mesh != mesh:
            raise RuntimeError("DTensor does not support cross-mesh operation yet! Got inputs with different meshes: "
                               f"{mesh} and {t._spec.mesh}. Move them to one first.")
    return mesh


# composites that look at elements in memory
READING = {"histogramdd", "histogram", "histc", "bincount", "allclose", "equal"}


def opens(op) -> bool:
    """True if an operator runs as those of its body: not if it reads elements."""
    return bool(op.traits.get("composite")) and not (op.traits.get("dynamic") or "unmeasured" in op.rules
                                                    or op.name in READING)


def composite(op, args, kwargs):
    """An operator that is its body: of DTensors, and of tensors that the body makes, which are the same in all
    processes."""
    tensors = flat_tensors((*args, *kwargs.values()))
    mesh, models = meshes_of(op, tensors), [t for t in tensors if isinstance(t, kind())]
    if kwargs.get("out") is not None:
        raise RuntimeError(f"{op.name}(out=...) is not supported for DTensor: use the result")
    if not opens(op):
        return on_whole(op, args, kwargs, mesh)
    try:
        with Body(), Drawing(mesh):
            results = op.body(*args, **kwargs)
    except NoMemoryError:
        READING.add(op.name)
        return on_whole(op, args, kwargs, mesh)
    if inside.depth:
        return results
    return map_results(lambda r: adopted(r, mesh, models[0]),
                       results) if isinstance(results, (Tensor, tuple, list)) else results


def adopted(result, mesh, model):
    """Return a tensor that a body made as a DTensor; with the argument's shape it gets the argument's placements."""
    DTensor = kind()
    if isinstance(result, DTensor):
        return result
    made = DTensor.wrapped(result, mesh, (Replicate(),) * mesh.ndim, result._rush_meta)
    return made.redistribute(mesh, parts_of(model)) if tuple(made.shape) == tuple(model.shape) else made


def parts_of(model) -> tuple:
    """Return a tensor's placements with Replicate in place of Partial."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in model._spec.placements)


def answer(op, args, kwargs):
    """The result of an operator: below the recording of gradients."""
    traits = op.traits
    if op in CUSTOM:
        return CUSTOM[op](op, args, kwargs, meshes_of(op, flat_tensors((*args, *kwargs.values()))))
    if traits.get("composite"):
        return composite(op, args, kwargs)
    tensors = flat_tensors((*args, *kwargs.values()))
    mesh = meshes_of(op, tensors)
    if kwargs.get("out") is not None:
        raise RuntimeError(f"{op.name}(out=...) is not supported for DTensor: use the result")
    otherwise = traits.get("otherwise")
    if otherwise is not None and not (kwargs and getattr(otherwise, "by_position", False)):
        function = otherwise(*args[1:])
        if function is not None:
            with Body(), Drawing(mesh):
                return function(args[0])
    with recording(False):
        if traits.get("into") is not None:
            return mutated(op, args, kwargs, mesh)
        return computed(op, args, kwargs, mesh)


MADE = ("full", "zeros", "ones", "empty", "empty_strided")


def fresh(op, args, kwargs):
    """Make a tensor like a DTensor: it has the same placements if it has the same shape."""
    DTensor = kind()
    model = args[0]
    mesh, where = model._spec.mesh, kwargs.get("device") or model.device
    name = op.name.removesuffix("_like") if op.name.endswith("_like") else op.name.removeprefix("new_")
    if name not in MADE:
        return composite(op, args, kwargs)
    sample = op.body(torch.empty(model.shape, dtype=model.dtype, device="meta"), *args[1:],
                     **{**kwargs, "device": "meta", "requires_grad": False} if "requires_grad" in kwargs
                     else {**kwargs, "device": "meta"})
    placements = parts_of(model) if tuple(sample.shape) == tuple(model.shape) else (Replicate(),) * mesh.ndim
    if mesh.get_coordinate() is None:
        return DTensor.wrapped(torch.empty(0, dtype=sample.dtype, device=where), mesh, placements, sample._rush_meta)
    lengths = box(tuple(sample.shape), placements, mesh.shape, tuple(mesh.get_coordinate()))[0]
    order = sorted(range(sample.dim()), key=lambda d: -sample.stride(d))  # of the dimensions in memory
    known = {k: v for k, v in kwargs.items() if k not in ("device", "requires_grad", "memory_format", "pin_memory",
                                                          "layout")}
    known["dtype"] = sample.dtype
    values = args[1:] if op.name.endswith("_like") else args[2:]
    if name == "full":
        values = values or (known.pop("fill_value"),)
        made = torch.full(lengths, *values, dtype=sample.dtype, device=where)
    elif name in ("zeros", "ones"):
        made = getattr(torch, name)(lengths, dtype=sample.dtype, device=where)
    else:
        made = torch.empty([lengths[d] for d in order], dtype=sample.dtype, device=where).permute(
            sorted(range(len(order)), key=order.__getitem__))
    return DTensor.wrapped(made, mesh, placements, sample._rush_meta).requires_grad_(bool(kwargs.get("requires_grad")))


def mutated(op, args, kwargs, mesh):
    """Run an operator that mutates: its value gets the target's placements."""
    DTensor, target = kind(), args[op.traits["into"]]
    if not isinstance(target, DTensor):
        raise RuntimeError(
            f"{op.name}: a DTensor is written into a tensor that is none, of shape {list(target.shape)}: take its "
            "to_local() or full_tensor()")
    put(target, computed(written(op), args, kwargs, mesh))
    return target


def put(target, value):
    """Write a value into a tensor, with that tensor's placements."""
    if not isinstance(target, kind()):
        raise RuntimeError(
            f"a DTensor is written into a tensor that is none, of shape {list(target.shape)}: make it one first")
    if target._apart is not None:
        base = base_of(target)
        return put(base, put_through(base, target._rush_views, value))
    if value._spec.placements != target._spec.placements:
        value = value.redistribute(value._spec.mesh, target._spec.placements)
    target._local_tensor.copy_(value._local_tensor)
    sharing.count_write(target)


@op(method=False, name="_put_view")
def put_view(whole, part, name, args, kwargs, index):
    """``whole`` with ``part`` in place of what a view operator shows of it."""
    made = whole.clone()
    ViewStep(OPS[name], args, dict(kwargs), index).repeat(made).copy_(part)
    return made


def put_through(base, steps, value):
    """Return the value of a base with ``value`` in place of what the steps of views show of it."""
    shown = [base]
    for step in steps[:-1]:
        shown.append(step.repeat(shown[-1]))
    for whole, step in zip(reversed(shown), reversed(steps)):
        kwargs = tuple(step.kwargs.items())
        value = computed(OPS["_put_view"], (whole, value, step.op.name, step.args, kwargs, step.index), {},
                         base._spec.mesh)
    return value


def base_of(view):
    """Return the base of a view in memory of its own.  ViewWrittenError for a detached one, which has none."""
    if view._base is None:
        raise ViewWrittenError(
            "a detached view of a DTensor that had to be redistributed, so that it has memory of its own, or its "
            "base, is written: the other would not see the write. clone() the detached view, or redistribute the base "
            "before the view is made")
    return view._base


def refresh(view):
    """Compute the part of a view in memory of its own anew if its base was written since."""
    version = counter(view).version
    if view._apart != version:
        with recording(False):
            shown = repeat_views(view._rush_views, base_of(view))
            view._part = shown.redistribute(shown._spec.mesh, view._spec.placements)._part
        view._apart = version


def flat_values(given, masks) -> list:
    """Return the tensors and run-time scalars of a call, in order."""
    found = []
    for k, value in enumerate(given):
        if isinstance(value, Tensor) or masks >> k & 1 and type(value) in NUMBER_METAS:
            found.append(value)
        elif type(value) in (list, tuple):
            found += flat_values(value, 0)
    return found


def describe(given, masks, values: list, key: list):
    """Add the local tensors and run-time scalars of a call to ``values``, in the order of its program's inputs, and
    all that the program depends on to ``key``."""
    DTensor = kind()
    for k, value in enumerate(given):
        cls = type(value)
        if isinstance(value, Tensor):
            sharded = isinstance(value, DTensor)
            values.append(value._local_tensor if sharded else value)
            key += (value._rush_meta, value._spec if sharded else None)
        elif masks >> k & 1 and cls in NUMBER_METAS:
            values.append(recorded_number(value))
            key.append(cls)
        elif cls is list or cls is tuple:
            inner = [cls]
            describe(value, 0, values, inner)
            key.append(tuple(inner))
        else:
            key += (cls, value if cls in HASHED else name_argument(value))


HASHED = frozenset({NoneType, bool, int, str, torch.dtype, torch.device})


def name_argument(value):
    """Return a hashable key of an argument: it distinguishes 0.0 from -0.0, and unhashable values by their text."""
    if isinstance(value, float):
        return value.hex()
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def input_placements(given, masks, mesh) -> list:
    """Return the placements of each tensor of a call, and None for each run-time scalar."""
    whole = (Replicate(),) * mesh.ndim
    return [v._spec.placements if isinstance(v, kind()) else whole if isinstance(v, Tensor) else None
            for v in flat_values(given, masks)]


def recorded_number(value):
    """Return a scalar as an input of traced programs: traces evaluate Python numbers at once, outside of local
    programs."""
    return value if top() is None else OPS["_filled"](value, (), NUMBER_METAS[type(value)].dtype)


def coordinate_in(mesh) -> tuple:
    """Return this process's coordinate in a mesh; for a process outside it, which has no part, the first one: its
    tensors have shapes and placements alone."""
    return tuple(mesh.get_coordinate() or (0,) * mesh.ndim)


class Decision:
    """The decision for calls with one key: a ShardedProgram and its results' (spec, meta); on full tensors if
    ``program`` is None.  ``holds``: a condition on run-time scalars under which it is valid, or None."""

    __slots__ = ("holds", "program", "results")

    def __init__(self, holds, program, mesh):
        self.holds, self.program = holds, program
        self.results = [] if program is None else [find_spec(mesh, v.placements, v.meta) for v in program.outputs]


def computed(op, args, kwargs, mesh):
    """Run an operator: by its program, or on full tensors if it has none."""
    names = tuple(kwargs) or None
    given = (*args, *kwargs.values()) if kwargs else args
    masks = calls_mask(op, names, len(args))
    values, key = [], [op, names, mine.autocast]
    describe(given, masks, values, key)
    decision = find_decision(tuple(key), op, given, names, masks, mesh)
    program = decision.program
    if program is None:
        return on_whole(op, args, kwargs, mesh)
    if program.same is not None and not op.traits.get("view"):
        return flat_values(given, masks)[program.same]
    if mesh._coordinate is None:
        local = [torch.empty(0, dtype=v.meta.dtype, device=mesh.device_type) for v in program.outputs]
    else:
        stream = Drawing(mesh).reserve(program.drawn) if program.drawn else ()
        local = program.run([*values, *stream], mesh, op.name)
    with_spec = kind().with_spec
    results = [with_spec(t, spec, meta) for t, (spec, meta) in zip(local, decision.results)]
    if program.writes:
        written = flat_values(given, masks)
        for k, value in zip(program.writes, results[len(results) - len(program.writes):]):
            put(written[k], value)
        del results[len(results) - len(program.writes):]
    if program.shows is not None or program.only_views:
        if program.shows is None:
            results = [with_spec(t._part.clone(), t._spec, t._rush_meta) for t in results]
        else:
            mark_view(results[0], flat_values(given, masks)[program.shows], program)
        note = getattr(top(), "note_copies", None)
        if note is not None:
            note(results, flat_tensors(given))
    if program.kind is None:
        return results[0]
    made, _ = program.kind
    return made(*results) if hasattr(made, "_fields") else tuple(results)


def mark_view(view, source, program):
    """Note that a result shows an argument: the same memory, or, if it had to be redistributed, memory of its own."""
    view._shows = True
    own = not program.only_views or view._part._rush_storage is not source._part._rush_storage
    if own or source._apart is not None:
        view._apart = counter(source).version


def find_decision(key, op, given, names, masks, mesh) -> Decision:
    """Return the decision for a call: that of an earlier call with an equal description, over the same mesh."""
    choices = mesh._decisions.get(key)
    for decision in choices or ():
        if decision.holds is None or decision.holds(given):
            return decision
    decision = Decision(*find_program(key, op, given, names, masks, mesh), mesh)
    if len(mesh._decisions) >= MOST:
        mesh._decisions.clear()
    mesh._decisions.setdefault(key, []).insert(0, decision)
    return decision


def find_program(key, op, given, names, masks, mesh) -> tuple:
    """Return (condition on run-time scalars, program) of a call; equal meshes share programs.  The program is None if
    the operator reads elements."""
    shared = mesh, coordinate_in(mesh), key
    for holds, program in PROGRAMS.get(shared, ()):
        if holds is None or holds(given):
            return holds, program
    try:
        graph, result, conditions, writes, drawn, memory = written_down(op, given, names, masks)
    except Untraceable:
        made = None, None
    else:
        placements = input_placements(given, masks, mesh)
        planner = Planner(graph, placements + [None] * (len(graph.inputs) - len(placements)), mesh.shape,
                          coordinate_in(mesh), op.name).plan()
        from ..._src.core.runtime import holds
        program = ShardedProgram(planner, result, writes, drawn, memory)
        made = holds(conditions.text) if conditions.tests else None, program
    if len(PROGRAMS) >= MOST:
        PROGRAMS.clear()
    PROGRAMS.setdefault(shared, []).insert(0, made)
    return made


def on_whole(op, args, kwargs, mesh):
    """Run an operator that reads elements: each process runs it on full tensors, for the same results."""
    DTensor = kind()
    if mesh.get_coordinate() is None:
        raise NotImplementedError(f"{op.name}: a process outside the mesh cannot compute data-dependent results")
    COUNTS[f"whole: {op.name}"] += 1
    log.info("%s runs on whole tensors: it has no program of primitives", op.name)
    whole = (Replicate(),) * mesh.ndim

    def gathered(value):
        if isinstance(value, DTensor):
            return value.redistribute(mesh, whole).to_local()
        return type(value)(map(gathered, value)) if type(value) in (list, tuple) else value

    def laid(result):
        if result.requires_grad:
            return DTensor.from_local(result, mesh, whole)
        return DTensor.wrapped(result, mesh, whole, result._rush_meta)

    results = op(*map(gathered, args), **{k: gathered(v) for k, v in kwargs.items()})
    return map_results(laid, results) if isinstance(results, (Tensor, tuple, list)) else results
