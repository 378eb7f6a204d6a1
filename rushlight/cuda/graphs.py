"""``torch.cuda.graphs``: launches that a driver captures once and replays as one."""
from __future__ import annotations

import gc
import itertools

from .._src.autograd.backward import grad as _grad
from .._src.autograd.function import Function as _Function, once_differentiable as _once
from .._src.core.devices import provided as _provided
from .._src.core.native import Tensor as _Tensor
from .._src.core import pytree as _pytree
from .._src.core.options import accept_only as _accept_only
from .places import index_of, provider_of

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]
_handles = itertools.count(1)
_pools: dict = {}  # by handle: the pool that the first graph under it has made, while a graph has it


def is_current_stream_capturing() -> bool:
    """True if the thread's stream is being captured."""
    found = _provided("cuda")
    if found is None:
        return False
    board = found.board(found.current())
    return found.driver.capturing(board.stream)


def graph_pool_handle() -> tuple:
    """Return a handle of memory for graphs that share it and never run concurrently."""
    return 1, next(_handles)


class CUDAGraph:
    """The launches of the current stream between ``capture_begin`` and ``capture_end``, which ``replay`` runs again on
    the current stream.

    Tensors of the capture keep their memory: ``replay`` reads the current contents of the inputs and overwrites the
    results.  Random numbers differ each time.  NoDeviceError if there is no GPU.
    """

    def __init__(self, keep_graph=False):
        _accept_only("CUDAGraph", "capture_end() makes the graph ready to replay", keep_graph=(keep_graph, False))
        provider = provider_of()
        self._board, self._recording, self._pool = provider.board(provider.current()), None, None

    def capture_begin(self, pool=None, capture_error_mode="global"):
        """Begin the capture.  ``pool``: ``graph_pool_handle()`` or another graph's ``pool()``.  RuntimeError on the
        default stream, and for a graph that has been captured already."""
        import weakref

        from .._src.devices.triton.graphs import Pool, Recording
        if self._recording is not None:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph. To capture a new graph, create "
                               "a new instance.")
        held = _pools.get(pool)
        found = held() if held is not None else None
        if found is None:
            found = Pool(self._board)
            _pools[pool if pool is not None else found.name] = weakref.ref(found)
        self._pool = pool if pool is not None else found.name
        recording = Recording(self._board, found)
        recording.begin(capture_error_mode)
        self._recording = recording

    def capture_end(self):
        """End the capture.  RuntimeError if an operation could not be captured."""
        recording, self._recording = self._recording, None
        recording.end()
        self._recording = recording

    def _abandon(self):
        """End a capture after an error, without a graph."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.abandon()

    def replay(self):
        """Run the launches on the current stream."""
        if self._recording is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self._recording.replay()

    def reset(self):
        """Release the graph and its memory."""
        if self._recording is not None:
            self._recording.reset()
        self._recording = None

    def pool(self) -> tuple:
        """Return the handle of its memory, for graphs that share it."""
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool


class graph:
    """Context manager that captures a CUDAGraph, on a stream of its own unless one is given."""

    default_capture_stream = board = None

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global"):
        from . import Stream
        if stream is None:
            board = provider_of().board(provider_of().current())
            if graph.board is not board:
                graph.default_capture_stream, graph.board = Stream(board.index), board
            stream = graph.default_capture_stream
        self.cuda_graph, self.pool, self.stream, self.mode = cuda_graph, pool, stream, capture_error_mode

    def __enter__(self):
        from . import synchronize
        from .memory import empty_cache
        synchronize()
        gc.collect()
        empty_cache()
        self.stream.__enter__()
        try:
            self.cuda_graph.capture_begin(pool=self.pool, capture_error_mode=self.mode)
        except BaseException:
            self.stream.__exit__(None, None, None)
            raise

    def __exit__(self, kind, error, trace):
        try:
            if error is None:
                self.cuda_graph.capture_end()
            else:  # what was recorded is not whole
                self.cuda_graph._abandon()
        finally:
            self.stream.__exit__(kind, error, trace)
        return False


class _Graphed:
    """A function whose forward and backward passes are graphs over tensors of their own."""

    def __init__(self, function, parameters, sample, warmups: int, allow_unused: bool, pool):
        self.parameters, self.count = parameters, len(sample)
        self.static = [x.detach().clone().requires_grad_(x.requires_grad) for x in sample]
        self.function, self.allow_unused, self.pool = function, allow_unused, pool
        self.inputs = [*self.static, *parameters]
        self.wanted = [x for x in self.inputs if x.requires_grad]
        self.warm(warmups)

    def warm(self, times: int):
        from . import Stream, current_stream
        side, outer = Stream(), current_stream()
        side.wait_stream(outer)
        with side:
            for _ in range(times):
                results, _ = _pytree.tree_flatten(self.function(*self.static))
                tracked = [y for y in results if y.requires_grad]
                if tracked and self.wanted:
                    _grad(tracked, self.wanted, [y.detach().clone().zero_() for y in tracked],
                                   allow_unused=self.allow_unused)
        outer.wait_stream(side)

    def record_forward(self):
        self.forward = CUDAGraph()
        with graph(self.forward, pool=self.pool):
            results = self.function(*self.static)
        self.results, self.tree = _pytree.tree_flatten(results)

    def record_backward(self):
        self.cotangents = [y.detach().clone().zero_() if y.requires_grad else None for y in self.results]
        self.backward, self.gradients = None, [None] * len(self.inputs)
        tracked = [y for y in self.results if y.requires_grad]
        if tracked and self.wanted:
            self.backward = CUDAGraph()
            with graph(self.backward, pool=self.pool):
                found = iter(_grad(tracked, self.wanted, [g for g in self.cotangents if g is not None],
                                            allow_unused=self.allow_unused))
            self.gradients = [next(found) if x.requires_grad else None for x in self.inputs]

    def made(self):
        """Return a function that runs the graphs."""
        own = self

        class Graphed(_Function):
            @staticmethod
            def forward(context, *inputs):
                for mine, given in zip(own.static, inputs):
                    if mine.data_ptr() != given.data_ptr():
                        mine.detach().copy_(given)
                own.forward.replay()
                return tuple(y.detach() for y in own.results)

            @staticmethod
            @_once
            def backward(context, *cotangents):
                for mine, given in zip(own.cotangents, cotangents):
                    if mine is not None and given is not None and mine.data_ptr() != given.data_ptr():
                        mine.copy_(given)
                if own.backward is not None:
                    own.backward.replay()
                return tuple(None if g is None else g.detach() for g in own.gradients)

        def run(*args):
            given, _ = _pytree.tree_flatten(args)
            found = Graphed.apply(*given, *own.parameters)
            return _pytree.tree_unflatten(list(found), own.tree)

        return run


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Return functions or modules whose forward and backward passes run as graphs, for arguments such as
    ``sample_args`` (a tuple of tensors; for several callables a tuple of such tuples).  In the other mode (training or
    not) a module uses its own forward.

    The next call overwrites results and gradients.  RuntimeError under autocast with a cache, and for modules with
    hooks.
    """
    several = isinstance(callables, tuple)
    if not several:
        callables, sample_args = (callables,), (sample_args,)
    pool = graph_pool_handle() if pool is None else pool
    made = []
    for function, sample in zip(callables, sample_args):
        parameters = tuple(function.parameters()) if hasattr(function, "parameters") else ()
        flat, _ = _pytree.tree_flatten(sample)
        if not all(isinstance(x, _Tensor) for x in flat):
            raise TypeError("In the beta API, sample_args for each callable must contain only Tensors. Other types are "
                            "not allowed.")
        if getattr(function, "_backward_hooks", None) or getattr(function, "_forward_hooks", None) or getattr(
                function, "_forward_pre_hooks", None):
            raise RuntimeError("Modules must not have hooks registered at the time they are passed. However, "
                               "registering hooks on modules after passing them through make_graphed_callables is "
                               "allowed.")
        made.append(_Graphed(function, parameters, flat, num_warmup_iters, allow_unused_input, pool))
    for one in made:
        one.record_forward()
    for one in reversed(made):
        one.record_backward()
    found = tuple(_placed(function, one.made()) for function, one in zip(callables, made))
    return found if several else found[0]


def _placed(function, run):
    """Return the replacement of a function, or the module with its forward replaced."""
    if not hasattr(function, "forward"):
        return run
    training, own = function.training, function.forward

    def forward(*args):
        return run(*args) if function.training == training else own(*args)

    function.forward = forward
    return function
