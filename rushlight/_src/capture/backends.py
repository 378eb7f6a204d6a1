"""Backends: compile captured graphs."""
from __future__ import annotations

import collections
import inspect
import warnings
import weakref

from ..core.interpret import precision, recording
from ..core.later import entered
from ..core.log import logger
from ..core.native import Tensor, mine
from ..core.op import make
from ..core.settings import settings
from ..graph.graph import Graph, symbols_in
from ..graph.running import run
from ..graph.save import Unsaveable, fingerprint, own
from ..transforms.level import Wrapped
from .errors import BackendFailed, UnknownBackend
from .unbacked import PICK, SHIFT, in_stages

eagerly, module_of, watched = entered("fx.aot", "eagerly"), entered("fx.convert",
                                                                    "module_of"), entered("tools.accuracy", "watched")

log = logger("graph")


class GraphModule:
    """A captured graph as backends receive it: callable, with ``graph`` and ``code``."""

    def __init__(self, graph: Graph, plain=False, writes=False):
        # plain: no result keeps its history, since backward passes in the graph use it up
        self.graph, self.plain, self.writes = graph, plain, writes

    def forward(self, *inputs):
        """Run the operators one by one."""
        return tuple(run(self.graph, inputs))

    __call__ = forward

    def in_order(self, *inputs):
        """Run the operators in recorded order, for inputs that share memory."""
        return tuple(run(self.graph, inputs, self.graph.recorded or self.graph.nodes))

    code = property(lambda self: str(self.graph))

    def print_readable(self):
        """Print the program, and return its source."""
        print(self.code)
        return self.code


def eager(module: GraphModule, example_inputs, **_):
    """Run the operators unchanged."""
    return module.forward


def rushlight(module: GraphModule, example_inputs, freezing=False, **chosen):
    """Return one operator whose body is the graph: its plans trace, differentiate, fuse and compile it.  Equal graphs
    share an operator.
    """
    from .stages import Recorded, Stages, divided, engine_takes
    if in_stages(module.graph.nodes):
        if divided(module.graph) and module.plain and engine_takes(module.graph):
            return Recorded(module.graph,
                            lambda part: rushlight(GraphModule(part, False, module.writes), None, **chosen))
        if divided(module.graph):
            log.debug("runs call by call: a backward pass goes through data-dependent numbers")
            return module.forward
        return Stages(module.graph, lambda part: rushlight(GraphModule(part, module.plain, module.writes), None,
                                                           **chosen))
    within = not module.writes or module.graph.changed is not None
    if freezing and module.graph.held and not module.plain and within:
        from .freezing import Frozen
        return Frozen(module.graph, example_inputs, run, rushlight(module, example_inputs, **chosen), chosen)
    try:
        name = f"{fingerprint(module.graph, module.plain, declared)} {sorted(chosen.items())}"
    except Unsaveable as reason:
        log.debug("not shared, not kept on disk: %s", reason)
        return operator_of(module, settings=chosen)
    return operators.get(name) or operators.enter(name, operator_of(module, identity=f"graph {name}", settings=chosen))


class SharedOperators(weakref.WeakValueDictionary):
    """Runners of captured graphs by fingerprint: all that compiled functions use, and the last ones made."""

    def __init__(self):
        super().__init__()
        self.last = collections.deque(maxlen=MOST_UNUSED)

    def enter(self, name, operator):
        self[name] = operator
        self.last.append(operator)
        return operator

    def clear(self):
        super().clear()
        self.last.clear()


MOST_UNUSED = 64  # operators that are kept though no compiled function may use them
operators = SharedOperators()


def declared(operator):
    """Return the operator itself, if other processes know it by its name."""
    return operator if operator in (PICK, SHIFT) else own(operator)


def operator_of(module: GraphModule, **traits):
    """Return the runner of a captured graph: one operator, or a function around it."""
    graph = module.graph
    scalars = sum(1 << k for k, n in enumerate(graph.inputs) if n.weak)
    traits |= {"several": True, "captured": True, "inputs": graph.inputs,
              "symbols": {s.arg[0]: s for s in symbols_in(graph)}}
    signature = inspect.Signature([inspect.Parameter(n.name, inspect.Parameter.POSITIONAL_ONLY) for n in graph.inputs])
    if not module.plain:
        traits["shorter"] = lambda part: operator_of(GraphModule(part))
        return make("compiled", lambda *values: tuple(run(graph, values)), None, signature, scalars, derived=graph,
                    **traits)

    def body(*values):
        with recording(True):
            return tuple(run(graph, values))

    operator = make("compiled", body, None, signature, scalars, derived=graph, **traits)

    def call(*inputs):
        with recording(False):
            return operator(*inputs)

    return call


def aot_eager(module: GraphModule, example_inputs, **_):
    """Run the forward and backward programs derived for compiled code operator by operator."""
    if in_stages(module.graph.nodes):
        return module.forward
    return eagerly(module.graph)


class Users:
    """A user's backend: it receives the graph as an fx graph."""

    def __init__(self, function):
        self.function = function

    def __call__(self, module: GraphModule, example_inputs, **options):
        try:
            call = self.function(module_of(module.graph), example_inputs, **options)
            if not callable(call):
                raise TypeError(
                    f"it returned {type(call).__name__}, which cannot be called: a backend takes (graph_module, "
                    "example_inputs) "
                    "and returns a function of the inputs, such as graph_module.forward")
        except Exception as error:
            raise BackendFailed(self.function, error) from error
        return call


class Default:
    """The default backend."""

    backend = "rushlight"


OWN = {"rushlight": rushlight, "inductor": rushlight, "eager": eager, "aot_eager": aot_eager,
       "aot_eager_decomp_partition": aot_eager}
BACKENDS = dict(OWN)
TAGS = dict.fromkeys(("eager", "aot_eager", "aot_eager_decomp_partition"), ("debug",))


def find(backend):
    """Return the function of a backend, given by name or itself.  ValueError for a name that is not registered."""
    if callable(backend):
        return backend if isinstance(backend, Users) or backend in OWN.values() else Users(backend)
    if backend not in BACKENDS:
        raise UnknownBackend(
            f"there is no backend {backend!r}: choose one of {', '.join(sorted(BACKENDS))}, or pass a function")
    return BACKENDS[backend]


def register(function, name: str, tags=()):
    """Register a user's backend under a name."""
    if name in OWN:
        raise ValueError(f"the backend {name!r} is built in: choose another name")
    BACKENDS[name], TAGS[name] = Users(function), tuple(tags)


def shared(inputs) -> bool:
    """True if two of these tensors share memory, so that a write to one changes the other."""
    storages = [innermost(x)._rush_storage for x in inputs if isinstance(x, Tensor)]
    if len(set(map(id, storages))) < len(storages):
        return True
    if all(s.kind for s in storages):
        return False
    # external memory, such as arrays, which may overlap
    places = sorted((s.address, s.address + s.nbytes) for s in storages if s.nbytes)
    return any(end > start for (_, end), (start, _) in zip(places, places[1:]))


def innermost(tensor):
    """Return the owner of a tensor's memory, below the levels of transforms."""
    while isinstance(tensor, Wrapped):
        tensor = tensor.current().value
    return tensor


class CompiledGraph:
    """A captured graph, compiled when it is first called."""

    def __init__(self, graph: Graph, backend, options=None, writes=False, plain=False):
        # writes: True if tensors are mutated
        self.module, self.backend, self.options = GraphModule(graph, plain, writes), backend, options
        self.call, self.writes = None, writes

    graph = property(lambda self: self.module.graph)

    def compiled(self, inputs):
        """Return the backend's callable for the graph, checked if settings say so."""
        def compile(module):
            return find(self.backend)(module, inputs, **(self.options or {}))

        if settings.check:
            return watched(self.module, compile, settings.check)
        return compile(self.module)

    def made(self, inputs):
        """As ``compiled``; the operators run one by one if that fails and errors are suppressed."""
        from .stance import Stance
        try:
            return self.compiled(inputs)
        except Exception as error:
            if not Stance.errors_are_suppressed:
                raise
            warnings.warn(f"a graph runs uncompiled, since compiling it failed: {type(error).__name__}: {error}",
                          stacklevel=4)
            return self.module.forward

    def __call__(self, *inputs):
        if mine.autocast:  # the graph contains autocast's casts
            with precision(0):
                return self(*inputs)
        if self.writes and shared(inputs):
            return self.module.in_order(*inputs)
        if self.call is None:
            log.debug("captured\n%s", self.graph)
            self.call = self.made(list(inputs))
        try:
            return self.call(*inputs)
        except (IndexError, RuntimeError) as error:
            if not getattr(error, "__notes__", ()):
                error.add_note(f"raised by the compiled form of {self.lines()}")
            raise

    def lines(self) -> str:
        """Return the lines of the program that the graph was captured from."""
        found: dict = {}
        for node in self.graph.nodes:
            if node.where is not None:
                found.setdefault(node.where[0], []).append(node.where[1])
        return ", ".join(f"{file}, lines {min(lines)} to {max(lines)}" for file, lines in found.items()) or "a function"
