"""Activation checkpointing: what a function keeps for the backward pass is computed again there instead."""
from __future__ import annotations

import contextlib
import enum
import threading
import warnings
import weakref

from ..autograd.function import Function
from .._src.autograd.mode import enable_grad, no_grad
from .._src.autograd.saved import hooked
from .._src.core.interpret import is_recording, precision
from .._src.core.native import Tensor, history, mine
from .._src.core.pytree import tree_leaves, tree_map
from .._src.core.random import go_to, places


class CheckpointError(RuntimeError):
    """Raised when recomputation differs from the forward pass."""


class Done(BaseException):
    """Ends computing again, once all that was kept is there."""


class EarlyStop(threading.local):
    """Whether computing again ends as soon as all that was kept is there."""

    on = True


early_stops = EarlyStop()


class Debugging(threading.local):
    """Whether checkpoints log their operators: None for what their argument ``debug`` says."""

    on: bool | None = None


debugging = Debugging()


class set_checkpoint_debug_enabled:
    """A block in which checkpoints log their operators or do not, whatever ``debug`` says; None leaves it to that."""

    def __init__(self, enabled: bool | None):
        self.enabled = enabled

    def __enter__(self):
        self.before, debugging.on = debugging.on, self.enabled

    def __exit__(self, *exception):
        debugging.on = self.before


class set_checkpoint_early_stop:
    """A block whose checkpoints stop early (or do not) when they compute again."""

    def __init__(self, enable: bool):
        self.enable = enable

    def __enter__(self):
        self.before, early_stops.on = early_stops.on, self.enable

    def __exit__(self, *exception):
        early_stops.on = self.before


def noop_context_fn():
    """Contexts that do nothing, around the forward pass and around computing again."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def get_device_states(*args) -> tuple:
    """Return the accelerators of tensor arguments, and their RNG states: none, since there is no accelerator."""
    return [], []


def set_device_states(devices, states, *, device_type=None):
    """Puts back what ``get_device_states`` gave.  ValueError if that names devices."""
    if devices or states:
        raise ValueError(f"states of devices {list(devices)} are given, but there is no accelerator")


class Surroundings:
    """The RNG offset and the autocast state that a function ran in, restored to run it again."""

    def __init__(self, keep_random):
        self.place, self.code = places() if keep_random else None, mine.autocast

    @contextlib.contextmanager
    def again(self):
        """A block like the first: afterwards the random stream is where it was."""
        before = places()
        try:
            if self.place is not None:
                go_to(self.place)
            with precision(self.code):
                yield
        finally:
            if self.place is not None:
                go_to(before)


def checkpoint(function, *args, use_reentrant=None, context_fn=noop_context_fn, determinism_check="default",
               debug=False, early_stop=True, preserve_rng_state=True, **kwargs):
    """``function(*args, **kwargs)``, keeping only its arguments for the backward pass (Chen et al. 2016).

    ``use_reentrant=False`` is the better way: it works with keyword arguments, nested checkpoints, ``autograd.grad``
    and double backward.  ValueError for arguments that the chosen way does not take; CheckpointError if computing again
    gives something else, which with ``debug`` lists the operators of both runs.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(lambda x: x.exp().exp(), x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([41.1936, 41.1936])
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended; True is assumed.", stacklevel=2)
        use_reentrant = True
    if not use_reentrant:
        log = OperatorLog() if (debug if debugging.on is None else debugging.on) else None
        if log is not None and context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        return Frame(function, args, kwargs, context_fn if log is None else log.make_contexts, determinism_check,
                     early_stop and early_stops.on, preserve_rng_state, log).run()
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {', '.join(kwargs)}; use_reentrant=False takes them")
    if context_fn is not noop_context_fn or debug:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
    return Reentrant.apply(function, preserve_rng_state, *args)


# --- without reentrance: saved tensors are places in a list that computing again fills --------------------------------
class RecomputedTensor:
    """Handle of a tensor that is recomputed instead of saved."""

    __slots__ = ("frame", "number", "shape", "dtype")

    def __init__(self, frame, number, tensor):
        self.frame, self.number, self.shape, self.dtype = frame, number, tuple(tensor.shape), tensor.dtype


class OperatorLog:
    """The operators of a checkpointed function with the metadata of their tensors, in the forward pass and when it is
    computed again."""

    def __init__(self):
        self.runs = [], []

    def make_contexts(self):
        """The contexts of a checkpoint, which log the operators of each run."""
        return tuple(map(logging_mode, self.runs))

    def explain(self, error) -> "CheckpointError":
        """The error with the operators of both runs."""
        titles = "during the original forward", "during recomputation"
        lists = (f"Operations executed {title}:\n\n" + "\n".join(run) for title, run in zip(titles, self.runs))
        return CheckpointError(
            "An error happened while unpacking tensors; dumping logs of latest computation because you passed "
            "`debug=True` to `torch.utils.checkpoint.checkpoint()`.\n\n" + "\n\n".join(lists) +
            "\n\nERROR: Detected non-determinism while running activation checkpointing.\n\n"
            "You are seeing this error because you passed `debug=True` to checkpoint and the tensors to be saved "
            "differ between the original forward and recomputation: find the first operator that differs above.\n\n"
            f"{error}")


def logging_mode(lines: list):
    """Return a mode that appends a line for each operator that runs; a second run starts a new list."""
    from ._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __enter__(self):
            lines.clear()
            return super().__enter__()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found = func(*args, **(kwargs or {}))
            lines.append(f"{describe(found)} = {func}({', '.join(map(describe, args))})")
            return found

    return Mode()


def describe(value) -> str:
    """The dtype and sizes of a tensor, of each in a list; other values as they are."""
    if isinstance(value, Tensor):
        return f"{value.dtype}{list(value.shape)}"
    return f"[{', '.join(map(describe, value))}]" if isinstance(value, (list, tuple)) else repr(value)


class Frame:
    """One checkpointed call."""

    def __init__(self, function, args, kwargs, context_fn, determinism_check, early_stop, keep_random, log=None):
        self.log = log
        self.function, self.args, self.kwargs = function, args, kwargs
        self.contexts, self.check, self.early_stop = context_fn(), determinism_check, early_stop
        self.surroundings = Surroundings(keep_random)
        self.count, self.found, self.is_complete = 0, {}, False

    def run(self):
        if not is_recording():
            return self.function(*self.args, **self.kwargs)
        self.borrow()
        with hooked((self.pack, unpack)), self.contexts[0]:
            result = self.function(*self.args, **self.kwargs)
        self.is_complete = True
        return result

    def borrow(self):
        """Request copies of the arguments before they are mutated: recomputation needs their current values."""
        self.borrow_values(tree_leaves((self.args, self.kwargs)))

    def borrow_values(self, values):
        """Request copies of the tensors among values before they are mutated."""
        reference = weakref.ref(self)
        for storage in {id(v._rush_storage): v._rush_storage for v in values
                        if isinstance(v, Tensor) and v._rush_storage is not None}.values():
            history.lend_storage(storage, reference)

    def take_copies(self, storage, copy):
        """Replace the arguments, and recomputed values, whose memory is about to be mutated."""
        self.args, self.kwargs, self.found = tree_map(
            lambda v: copy(v) if isinstance(v, Tensor) and v._rush_storage is storage else v,
            (self.args, self.kwargs, self.found))
        self.borrow()

    def pack(self, tensor):
        self.count += 1
        return RecomputedTensor(self, self.count - 1, tensor)

    def value(self, place):
        """The tensor of a place; what was computed again is given away once."""
        try:
            return self.find(place)
        except CheckpointError as error:
            if self.log is None:
                raise
            raise self.log.explain(error) from error

    def find(self, place):
        """``value``, with errors as they are."""
        if place.number not in self.found:
            self.compute_again()
        tensor = self.found.pop(place.number)
        if self.check != "none" and (tuple(tensor.shape) != place.shape or tensor.dtype is not place.dtype):
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                "during the forward pass: tensor at position "
                f"{place.number} was {place.dtype} {list(place.shape)}, and is {tensor.dtype} {list(tensor.shape)} now")
        return tensor

    def compute_again(self):
        self.found, number = {}, 0

        def collect(tensor):
            nonlocal number
            self.found[number] = tensor.detach()
            self.borrow_values([tensor])
            number += 1
            if number == self.count and self.early_stop:
                raise Done(self)
            return tensor.detach()

        try:
            with hooked((collect, lambda tensor: tensor)), self.surroundings.again(), self.contexts[1], enable_grad():
                self.function(*self.args, **self.kwargs)
        except Done as done:
            if done.args[0] is not self:
                raise
        if not self.is_complete:  # the function computes gradients itself: it has yet to save what follows
            self.found = {place: tensor for place, tensor in self.found.items() if place < self.count}
            return
        if number > self.count:
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                f"forward pass: {number} and {self.count}")
        if number != self.count:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation: {self.count} and {number}")


def unpack(place):
    return place.frame.value(place)


# --- with reentrance: a function whose backward runs a backward pass of its own ---------------------------------------
class Reentrant(Function):
    """Runs a function unrecorded; its backward runs it again, recorded, and differentiates that."""

    @staticmethod
    def forward(ctx, function, keep_random, *args):
        ctx.function, ctx.surroundings = function, Surroundings(keep_random)
        ctx.places = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.rest = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*(args[k] for k in ctx.places))
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx, *gradients):
        from .._src.autograd.backward import backward
        # gradients of what the function reads would be lost
        if mine.run is not None and (mine.run.captures is not None or not mine.run.accumulate):
            raise RuntimeError(
                "torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter to .backward(): "
                "call checkpoint with use_reentrant=False")
        args = list(ctx.rest)
        for k, tensor in zip(ctx.places, ctx.saved_tensors):
            args[k] = tensor.detach().requires_grad_(tensor.requires_grad)
        with ctx.surroundings.again(), enable_grad():
            results = ctx.function(*args)
        results = (results,) if isinstance(results, Tensor) else results
        wanted = [(r, g) for r, g in zip(results, gradients) if isinstance(r, Tensor) and r.requires_grad]
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward(*map(list, zip(*wanted)))
        return (None, None, *(a.grad if isinstance(a, Tensor) else None for a in args))


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Run the functions (or modules of a Sequential) in sequence, in this number of checkpointed segments; the last
    is not checkpointed."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly; "
            "True is assumed.", stacklevel=2)
        use_reentrant = True
    keep_random = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {', '.join(kwargs)}")
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(functions) // segments

    def segment(first, last):
        def run(value):
            for function in functions[first:last]:
                value = function(value)
            return value
        return run

    for k in range(segments - 1):
        input = checkpoint(segment(k * size, (k + 1) * size), input, use_reentrant=use_reentrant,
                           preserve_rng_state=keep_random)
    return segment((segments - 1) * size, len(functions))(input)


# --- selective checkpoints: some operators' results are kept ----------------------------------------------------------
class CheckpointPolicy(enum.Enum):
    """Whether an operator's results are kept or computed again."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


KEPT = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, CheckpointPolicy.MUST_CPU_OFFLOAD)


class SelectiveCheckpointContext:
    """Context of a policy call: ``is_recompute``, and the operator's result, if it ran."""

    def __init__(self, *, is_recompute, op_output=None):
        self.is_recompute, self.op_output = is_recompute, op_output


class Selective:
    """State shared by the two contexts of a selective checkpoint: for each operator, call by call, the saved results,
    or None.  The policy is called once, in the forward pass."""

    def __init__(self, policy, may_be_mutated=False):
        self.policy, self.kept, self.may_be_mutated = policy, {}, may_be_mutated

    def was_kept(self, func) -> bool:
        """Whether the results of the next call are kept; the place of one whose are not is passed.  CheckpointError
        where there was no such call in the forward pass."""
        if not self.kept.get(func):
            raise CheckpointError(
                f"{func} ran more often when computed again than in the forward pass. Trying to backward an extra "
                "time? Saved results are returned once: a selective checkpoint allows one backward pass")
        kept = self.kept[func][0] is not None
        if not kept:
            del self.kept[func][0]
        return kept


def selective_mode(shared, again):
    """The mode that keeps chosen results, or (``again``) gives them back instead of computing them."""
    from ._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if again:
                return given_back(shared, func, args) if shared.was_kept(func) else func(*args, **kwargs)
            result, seen = noted(func, args, kwargs)
            told = SelectiveCheckpointContext(is_recompute=False, op_output=result)
            chosen = shared.policy(told, func, *args, **kwargs)
            wanted = chosen in KEPT if isinstance(chosen, CheckpointPolicy) else bool(chosen)
            shared.kept.setdefault(func, []).append(kept_results(args, result, seen) if wanted else None)
            return result

    return Mode()


def noted(func, args, kwargs):
    """Runs an operator: (its result, the tensors that its backward step saved)."""
    seen = []
    pack, unpack_again = mine.hooks[-1]
    with hooked((lambda tensor: seen.append(tensor) or pack(tensor), unpack_again)):
        return func(*args, **kwargs), seen


def kept_results(args, result, seen):
    """An operator's results, and what its backward step saved, as places among arguments and results, or as tensors
    where it is neither."""
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    known = [t for t in tree_leaves((args, results)) if isinstance(t, Tensor)]
    places = [place_among(known, saved) for saved in seen]
    kept = [r.detach() for r in results]
    return [(r, r._version, own.requires_grad) for r, own in zip(kept, results)], places, type(result)


def place_among(known, saved):
    """The index of the tensor that shows what was saved; what was saved, without history, if none does."""
    for place, tensor in enumerate(known):
        if same_memory(tensor, saved):
            return place
    return saved.detach()


def given_back(shared, func, args):
    """The kept results of an operator; what its backward step had saved is saved again."""
    results, places, kind = shared.kept[func].pop(0)
    if not shared.may_be_mutated and any(r._version != version for r, version, _ in results):
        raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
    known = [t for t in tree_leaves((args, [r for r, *_ in results])) if isinstance(t, Tensor)]
    for place in places:
        with no_grad():
            mine.hooks[-1][0](place if isinstance(place, Tensor) else known[place])
    made = [r.detach().requires_grad_(wanted) for r, _, wanted in results]
    if shared.may_be_mutated:  # leaves that require gradients must not be written
        with enable_grad():
            made = [r.clone() for r in made]
    return made[0] if not issubclass(kind, (tuple, list)) else kind(made)


def same_memory(a, b) -> bool:
    """Whether two tensors show the same elements."""
    return a._rush_storage is b._rush_storage and a._rush_offset == b._rush_offset and a._rush_meta is b._rush_meta


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """The contexts of a checkpoint that keeps the results of some operators: those of a list, or those for which
    ``policy(ctx, op, *args)`` says so.

    TypeError for other types.  RuntimeError when a saved result that was mutated is returned, unless
    ``allow_cache_entry_mutation``.  Use as ``checkpoint(..., use_reentrant=False, context_fn=lambda:
    create_selective_checkpoint_contexts(policy))``.
    """
    policy = policy_fn_or_list
    if isinstance(policy, (list, tuple)):
        chosen = list(policy)

        def policy(ctx, op, *args, **kwargs):
            return CheckpointPolicy.MUST_SAVE if op in chosen else CheckpointPolicy.PREFER_RECOMPUTE
    elif not callable(policy):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    shared = Selective(policy, allow_cache_entry_mutation)
    return selective_mode(shared, False), selective_mode(shared, True)


# --- names that libraries build their own checkpointing with ----------------------------------------------------------
class CheckpointFunction(Function):
    """The Function of checkpoints with reentrance: ``apply(function, preserve_rng_state, *args)``."""

    forward, backward = staticmethod(Reentrant.forward), staticmethod(Reentrant.backward)


def detach_variable(inputs) -> tuple:
    """Detach the tensors of a tuple, keeping requires_grad; other values are unchanged. RuntimeError for other types.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(one.detach().requires_grad_(one.requires_grad) if isinstance(one, Tensor) else one for one in inputs)


def check_backward_validity(inputs):
    """Warns where no tensor wants a gradient: then none comes out of a checkpoint with reentrance."""
    if not any(one.requires_grad for one in inputs if isinstance(one, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


class DefaultDeviceType:
    """Default device type whose RNG state checkpoints save if no argument has one."""

    chosen = "cpu"

    @staticmethod
    def set_device_type(device: str = "cuda"):
        """Sets it."""
        DefaultDeviceType.chosen = device

    @staticmethod
    def get_device_type() -> str:
        """Return the type: "cpu" if none was set."""
        return DefaultDeviceType.chosen
