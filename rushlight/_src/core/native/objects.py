"""The objects of the hot path: tensors, operators, plans, nodes of the backward graph, and the state that calls look
at."""
from __future__ import annotations

from .allocator import Storage
from .language import cast, i64, native, per_thread


@native
class Local:
    """The state of a thread. Each has one of these, which it alone reads and writes."""

    grad: i64  # 1 if results record their history
    inference: i64
    autocast: i64  # 0, or the precision in which operators of the autocast class compute
    packing: i64  # 1 if ``state.pack`` is called for every node that saved something
    # (pack, unpack) of active saved-tensor hooks, the innermost last; a string if hooks are disallowed
    hooks: tuple
    stack: tuple  # active interpreters, the one on top last
    modes: tuple  # modes that see the functions a user calls, before any interpreter does; the innermost last
    plain: i64  # number of active blocks in which classes with ``__torch_function__`` are treated as plain tensors
    device: object  # of factory functions that name none; None for the CPU
    devices: tuple  # the previous values, outside of ``with device`` blocks
    stream: i64  # address of the default random stream's seed and position in a thread that has its own; else 0
    seed: i64  # where in the random stream the thread's last program began to draw
    drawn: i64
    queue: object  # the device's queue that the driver's calls of the thread are for, or None
    run: object  # the backward pass that this thread is in, the innermost


mine = per_thread(Local, grad=1, hooks=(), stack=(), modes=(), devices=())


@native
class State:
    """The state that every operator call reads, in any thread. There is one of these."""

    sequence: i64  # number of the next node
    search: i64  # number of the last search for storages
    anomaly: i64  # 1 if ``watch`` is called for every node
    seed: i64  # of the default random stream
    position: i64  # next block of the default random stream
    # hooks that higher layers set: ``hooks.py`` lists the meaning, the setter and the time of call of each
    cast: object
    pack: object
    watch: object
    tensor: object
    parameter: object
    slow: object
    plan: object
    choose: object
    keyword_mask: object
    whole_mask: object
    shared: object
    mutate: object
    refresh: object
    failed: object
    elsewhere: object
    launch_elsewhere: object
    launch_failed: object
    far_storage: object
    weak: object
    add: object
    accumulate: object
    run_hooks: object
    run_prehooks: object
    run_posthooks: object
    unreached: object
    partly_reached: object
    call_function: object
    freed: object
    stale: object
    unwritable: object
    unsaveable: object
    copy_lent: object
    zeros: object
    conform: object
    derive_recorded: object
    leave_out: object
    copied: object
    make_room: object
    drop_copies: object
    metas: dict
    meta: object
    static_types: object


state = State()


@native(subclassable=True, weakref=True, attributes=True, called=True, freelist=1024)
class Tensor:
    """A strided array of elements of one dtype.  Its methods are attached in ``core/tensor.py``."""

    _rush_storage: Storage
    _rush_counter: object  # the storage whose version counts its writes; None: its own (see ``counter``)
    _rush_offset: i64  # in elements
    itemsize: i64
    _rush_meta: object
    _rush_needs_grad: i64
    _rush_output: i64  # which result of ``_rush_grad_node`` this is
    _rush_grad_node: object  # how it was made, or None
    _rush_gradient: object  # the accumulated gradient of a leaf
    _rush_accumulator: object  # weak in spirit: the leaf's accumulation node
    _base: object  # the tensor this is a view of
    _rush_seen: i64  # the storage version at which ``_rush_grad_node`` of a view was made
    _rush_hooks: object


@native
def counter(tensor: Tensor) -> Storage:
    """The storage whose version counts the writes to a tensor and its views: that of its memory, except for tensors
    returned by or assigned to ``.data``, and views made before that."""
    own = tensor._rush_counter
    if own is None:
        own = tensor._rush_storage.counted
    return tensor._rush_storage if own is None else cast(Storage, own)


@native(weakref=True)
class Plan:
    """The execution plan of one operator on inputs of given metadata."""

    kind: i64
    outputs: tuple  # Metas of the results, those only for the backward last
    sizes: tuple  # bytes of each
    itemsizes: tuple
    several: i64  # 1 if the operator returns a tuple
    extra: i64  # how many trailing results exist only for the backward
    code: i64  # address of the program
    code_owner: object
    temporaries: tuple  # bytes of each
    inside: tuple  # results placed among the temporaries: (number, offset in bytes), by offset
    reused: tuple  # results placed over a dead argument (``source``), likewise
    random: i64  # blocks drawn from the random stream; 0 if none
    long: i64  # 1 if worth releasing the interpreter lock
    # 1 if it has more values than the hot path has room for; CHOICE for a choice of plans, by scalar values
    large: i64
    passed: tuple  # where results share memory with arguments: for each result, fresh result k, or ~k for ``views[k]``
    views: tuple  # (which tensor argument, offset in elements, Meta or None for the argument itself, item size)
    written: tuple  # the tensor arguments that a program writes into, besides its results
    source: i64  # index of a tensor argument: views: the base; in-place: the target; programs: the donated one
    # in-place: 1 if another argument is read at other elements than the one being written; views: 1 if the result
    # forgets its base
    apart: i64
    offset: i64  # views: in elements, relative
    function: object  # PYTHON plans: called with (args, names)
    place: object  # the device that runs the program; None for the CPU
    # the launch data for the device's machine code: the address (0: nothing is ready), its owner, and the device whose
    # queues it is for
    ready: i64
    prepared: object
    board: object
    packing: object  # the operands that its program packs (``weights.Packing``), or None
    inner: object  # PYTHON plans around another plan: that plan, and further inputs of their construction
    wanted: tuple  # the tensor arguments that get gradients
    cotangents: tuple  # the results that carry gradients
    saves: tuple  # saved for the backward: tensor argument k, ~k for result k, or a value (see below)
    lent: tuple  # the indices in ``saves`` of tensors that users may write: nodes get copies before that
    spare: i64  # how many of ``saves``, the last ones, are read for double backward alone
    lasting: i64  # 1 if no backward pass frees ``saves``
    derived: object  # the backward operator: (*saved, *constants, *gradients) -> gradients of the requested arguments
    # the same operator for values that are dead afterwards: it overwrites what it has read; None if there is none
    donating: object
    constants: tuple
    op: object


RUN, VIEW, SAME, PYTHON, INTO, ELSEWHERE = 0, 1, 2, 3, 4, 5  # kinds of plan
CHOICE = 2
FLOAT_VALUE, INTEGER_VALUE, SEED_VALUE, POSITION_VALUE = 1 << 24, 1 << 25, 1 << 26, (1 << 26) + 1  # codes in ``saves``


@native(weakref=True, freelist=1024)
class GradNode:
    """A node of the backward graph: how results were made from arguments.

    ``edges[k]`` is the node that made wanted argument k (None: no gradient), ``slots[k]`` which of its results that
    was.
    """

    plan: Plan  # DERIVED nodes
    edges: tuple
    slots: tuple
    saved: tuple
    versions: tuple
    number: i64  # later nodes run first
    kind: i64
    variable: object  # ACCUMULATE nodes: the leaf
    function: object  # FUNCTION nodes: called with a list of gradients, returns one for each edge
    outputs: tuple  # FUNCTION nodes: Metas of the results
    hooks: object  # a dict of functions on the incoming gradients
    posthooks: object  # likewise of functions that run before and after the node itself
    pending: i64  # engine: results still awaited in this run
    epoch: i64  # engine: the run that saw this node last
    buffer: list  # engine: the gradient of each result
    extra: object
    # result: the Meta that its gradients are to have, for results whose tensor has had other metadata since; or None
    expected: object


DERIVED, ACCUMULATE, FUNCTION = 0, 1, 2  # kinds of node
LAST = 1 << 62  # accumulation runs as soon as it can


@native
def wrap(storage: Storage, offset: i64, meta: object, itemsize: i64) -> Tensor:
    """A tensor over this memory."""
    tensor = Tensor()
    tensor._rush_storage = storage
    tensor._rush_offset = offset
    tensor._rush_meta = meta
    tensor.itemsize = itemsize
    return tensor


@native
def part_of(tensor: Tensor, offset: i64, meta: object, itemsize: i64) -> Tensor:
    """A tensor over the memory of another, whose writes count as writes to that one."""
    part = wrap(tensor._rush_storage, offset, meta, itemsize)
    if tensor._rush_counter is not None:
        part._rush_counter = tensor._rush_counter
    return part
