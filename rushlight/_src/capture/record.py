"""Recorder: the interpreter that records operator calls on fake tensors in a Graph."""
from __future__ import annotations

from contextlib import nullcontext

from ..autograd.dispatching import tensors_of
from ..autograd.program import leaf
from ..core.dtypes import bool_
from ..core.expr import Expr
from ..core.nodes import INFINITY
from ..core.interpret import Interpreter, Suspended, precision
from ..core.meta import Meta, Size, dense_strides, has_gaps
from ..core.native import Op, Tensor, mine
from ..core.op import OPS, body_of
from ..core.operands import check_operands
from ..core.overriding import DISPATCH, Dispatch, overriding
from ..core.runtime import Conditions
from ..core.tensor import blank, empty_of
from ..eager.arguments import NUMBER_METAS
from ..eager.detours import another
from ..graph.graph import Graph, Node, nodes_in
from ..ops.out import check_out
from ..transforms.level import Level
from ..transforms.trace import ValueNeeded, zeros_laid
from . import custom
from .errors import Break
from .fake import Fake, Leaf, as_fixed, as_hinted, fakes_in
from .inference import infer
from .reals import Real
from .wrapper_specs import open_wrapper
from .unbacked import (ITEM, NUMBER, OPERATORS, PICK, REQUIRE, SHIFT, SIZE, Assumptions, Effect, Reading, between,
                       in_stages, measured)

FORBIDDEN_INPLACE = frozenset(("resize_", "resize_as_", "set_", "detach_", "requires_grad_"))


class Recorder(Interpreter):
    """Records calls as nodes.  ``sizes_read``: the inputs whose sizes decided what was recorded."""

    breaks = True

    def __init__(self, lift, draw, where):
        self.lift, self.draw = lift, draw  # how a tensor from outside and an RNG stream offset become inputs
        self.where = where  # () -> the user's file and line
        self.nodes: list[Node] = []
        self.inputs: list[Node] = []
        self.sizes_read: set = set()
        self.bases: dict = {}  # node of a view -> node of the tensor it shares memory with
        self.viewed: dict = {}  # node of a view -> the Fake that it is a view of
        self.starts: dict = {}  # node of a view -> its offset from its base in elements, if known
        self.writers: set = set()  # nodes that write into their arguments
        self.targets: dict = {}  # such a node -> the nodes it writes to
        self.copies: set = set()  # nodes whose memory is that of an argument when the program is not compiled
        self.regions: dict = {}  # node -> the checkpointed call it belongs to
        self.plain = False  # True if no result keeps its history, since backward passes have used it up
        self.graded = False  # True if anything was computed with a history
        self.outright = False  # True if arguments keep their history while grad mode is off: the caller's mode decides
        self.history = False  # True if a tensor from outside is overwritten with values that carry a gradient
        self.settings_read: set = set()  # (owner, name) of switches that the record depends on
        self.counter = {}
        self.symbolic = False  # True if any size or argument is a symbol
        self.real = None  # run-time scalar -> the same as an input of the graph, a TensorValue
        self.assume = None  # function of a condition as Python source: assumes it of the program's inputs
        self.start = None  # node of an input -> its tensor's storage_offset(), assumed afterwards
        self.within_try = None  # () -> True if the program may catch an error of the current instruction
        self.misses_errors = None  # () -> True if an error that the graph raises comes too late for the program
        self.place = None  # () -> the code and offset of the current instruction
        self.shape_env: Assumptions | None = None  # facts about data-dependent numbers; None: there can be none
        self.leaves: dict = {}  # nodes of tensors made here that require grad -> Leaf
        self.hooked: dict = {}  # node -> its node before the hooks on its gradient
        self.spelled = None  # (recorder, op, args, kwargs): records it by other operators, or NotImplemented
        self.known: dict = {}  # node of a single element computed from constants of the program alone -> its value
        self.read_before: dict = {}  # what was read of data since the last write -> the result

    pick = PICK

    # --- values -------------------------------------------------------------------------------------------------------
    def name(self, stem: str) -> str:
        count = self.counter[stem] = self.counter.get(stem, -1) + 1
        return f"{stem}{count}"

    def fake(self, node: Node, meta, needs_grad, inputs, like=Tensor) -> Fake:
        made = blank(Fake)
        made._rush_meta, made.itemsize, made._rush_needs_grad = meta, meta.itemsize, int(needs_grad)
        made.node, made.recorder, made.inputs, made.like = node, self, inputs, like
        return made

    def input(self, meta, needs_grad=False, like=Tensor) -> Fake:
        """Return a graph input for a tensor."""
        node = Node(self.name("x"), None, meta=meta)
        self.inputs.append(node)
        return self.fake(node, meta, needs_grad, frozenset((node,)), like)

    def number(self, kind=int) -> Fake:
        """Return a graph input for a run-time scalar."""
        node = Node(self.name("s"), None, meta=NUMBER_METAS[kind], weak=True)
        self.inputs.append(node)
        made = self.fake(node, node.meta, False, frozenset())
        made.weak = True
        return made

    def shifted(self, position: Fake, blocks: int) -> Fake:
        """Return an RNG stream offset advanced by ``blocks``."""
        node = Node(self.name("s"), SHIFT, (position.node, blocks), meta=position._rush_meta, where=self.where())
        self.nodes.append(node)
        made = self.fake(node, position._rush_meta, False, frozenset())
        made.weak = True
        return made

    # --- the Interpreter interface ------------------------------------------------------------------------------------
    def reserve(self, blocks, owner=None, agree=None):
        return self.draw(blocks, owner, agree)

    def empty(self, meta):
        if not meta.device.provider.has_data:
            return self.constant(lambda: empty_of(meta))
        return zeros_laid(meta)

    def constant(self, make):
        with Suspended(self):
            made = make()
        result = OPS["clone"](self.lift(made))
        if made.numel() == 1:
            self.known[result.node] = made
        return result

    def fix(self, fake, value):
        """Record the value of a scalar from outside, which is a constant afterwards; return the number."""
        with Suspended(self):
            known = self.known[fake.node] = OPS["clone"](value.detach())
            return known.item()

    def call(self, op, args, kwargs):
        kinds = overriding((*args, *kwargs.values()), DISPATCH)
        if kinds:
            return self.wrapped(op, args, kwargs, kinds)
        if "out" in kwargs and "library" not in op.traits:
            out = kwargs["out"]
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
            if out is not None:
                return self.into(out, op, args, kwargs)
        if op.name in FORBIDDEN_INPLACE:
            raise Break("RB011", f"{op.name}() changes the metadata of a tensor")
        if another(op, args, tuple(kwargs)) is None:
            check_operands(op, [*map(as_plain, args), *map(as_plain, kwargs.values())], tuple(kwargs))
        if self.shape_env is not None and measured(op):
            return self.measure(op, tuple(map(self.entered, args)), {k: self.entered(v) for k, v in kwargs.items()})
        if self.spelled is not None and (found := self.spelled(self, op, args, kwargs)) is not NotImplemented:
            return found
        if op.traits.get("composite"):
            self.settings_read.update([op.traits["reads"]] if "reads" in op.traits else ())
            return body_of(op, args)(*args, **kwargs)
        otherwise = op.traits.get("otherwise")
        if otherwise is not None and (other := otherwise(*args[1:])) is not None:
            return other(args[0])
        return self.record(op, tuple(map(self.entered, args)), {k: self.entered(v) for k, v in kwargs.items()})

    def wrapped(self, op, args, kwargs, kinds):
        """Record a call with instances of classes that answer operators by the tensors they wrap."""
        return Dispatch.call(op, args, kwargs, kinds)

    def differentiate(self, op, args, kwargs, answer, within):
        """Record an operator call that classes answer and differentiate: one node, over the tensors they wrap."""
        if "into" in op.traits:
            raise Break("RB014", f"{op.name} of a tensor that wraps others and requires grad")
        call = custom.OperatorCall(op, args, kwargs, answer, within)
        found = self.apply_recorded(call, call.tensors)
        if op.traits.get("view"):
            self.note_copies(found)
        return found

    def apply_function(self, function, args):
        """Record ``autograd.Function.apply`` within framework code."""
        if not mine.grad or not any(t._rush_needs_grad for t in tensors_of(args)):
            return function.run(args)
        found = self.apply_recorded(function, args)
        self.note_copies(found)
        return found

    def apply_recorded(self, function, args):
        """Record a function with a custom gradient as one node; instances are rebuilt from its results."""
        op, tensors = custom.operator(function, args)
        found = self.call(op, tensors, {})
        return op.traits["results"].close(self, found if isinstance(found, tuple) else (found,), op.traits["constant"])

    def note_copies(self, results, arguments=()):
        """Note that results may share memory with arguments when computed eagerly, and do not here."""
        same = self.roots_of(arguments)
        results = results if isinstance(results, (tuple, list)) else (results,)
        self.copies |= self.roots_of(results) - same

    def roots_of(self, tensors) -> set:
        """Return the nodes that own the memory of tensors, or of the tensors they wrap."""
        return {self.root(part.node) for tensor in tensors for part in open_wrapper(tensor) if isinstance(part, Fake)}

    def into(self, out, op, args, kwargs):
        """Record a call with ``out=``: the result is copied there if its shape fits."""
        result = self.call(op, args, kwargs)
        if (not isinstance(out, Fake) or not isinstance(result, Fake)
                or out._rush_meta.shape != result._rush_meta.shape or out._rush_needs_grad or result._rush_needs_grad):
            raise Break("RB001", f"{op.name}() with out=")
        check_out(op, out._rush_meta, result._rush_meta)
        return OPS["copy_"](out, result)

    def entered(self, value):
        """Return an argument as it is recorded: tensors from outside lifted, history cut while grad mode is off."""
        if type(value) in (list, tuple, Size):
            kind = list if type(value) is list else tuple
            return kind(map(self.entered, value))
        if type(value) is Real:
            return self.run_time(value)
        if not isinstance(value, Tensor):
            return value
        value = value if isinstance(value, Fake) else self.lift(value)
        if not mine.grad and value._rush_needs_grad and not self.outright:
            return self.cut(value)
        return value

    def run_time(self, real: Real) -> Fake:
        """Return a run-time float as an input of the graph."""
        fake = self.real(real.number).fake
        fake.stands_for = real
        return fake

    def cut(self, value: Fake) -> Fake:
        detach = OPS["detach"]
        node = Node(self.name("t"), detach, (value.node,), {}, value._rush_meta, where=self.where())
        self.nodes.append(node)
        self.bases[node], self.starts[node] = value.node, 0
        made = self.fake(node, value._rush_meta, False, value.inputs)
        made.original = value
        return made

    def start_of(self, node: Node) -> int:
        """Return the storage offset of a tensor; a Break if it is unknown."""
        base, behind = self.bases.get(node), self.starts.get(node, 0 if node.op is None else None)
        if base is None and node.op is not None:
            return 0
        if type(behind) is not int or base is None and self.start is None:
            raise Break("RB015", "storage_offset()")
        if base is None:
            return self.start(node)
        return self.start_of(base) * base.meta.dtype.itemsize // node.meta.dtype.itemsize + behind

    def holder(self, fake: Fake) -> Fake:
        """Return the base of a view: an input, or a computed value without gaps in its storage.

        Raises Break for other values, whose storage no program knows, and for inputs that require grad and have gaps or
        overlapping elements: the program gives gradients of their elements alone.
        """
        found = fake
        while (base := self.viewed.get(found.node)) is not None and base.dtype is fake.dtype:
            found = base
        if (found._rush_needs_grad or found.node.op is not None) and dense_strides(found.shape, found.stride()) is None:
            raise Break("RB015", "as_strided()")
        if not found._rush_needs_grad or found is fake:
            return found
        if not fake._rush_needs_grad:
            return OPS["detach"](found)
        return OPS["_within"](found, fake.shape, fake.stride(), fake.storage_offset() - found.storage_offset())

    def replace_viewed(self, fake: Fake):
        """Keep the current state of a Fake as the base of its views, before it becomes another view in place."""
        former = self.fake(fake.node, fake._rush_meta, fake._rush_needs_grad, fake.inputs, fake.like)
        self.viewed = {node: former if base is fake else base for node, base in self.viewed.items()}

    def require_grad(self, fake: Fake, wanted):
        """Set ``requires_grad``: a tensor made here becomes a leaf."""
        if bool(wanted) == bool(fake._rush_needs_grad):
            return
        node = fake.node
        if not wanted or self.shape_env is None or node.op is None or not fake.dtype.is_floating_point:
            raise Break("RB011", "setting requires_grad")
        fake.node = made = self.node(leaf, (node,), fake._rush_meta)
        shares = node in self.bases or node in self.bases.values()
        fake._rush_needs_grad, self.leaves[made] = 1, Leaf(fake, self.root(node) if shares else None, node,
                                                           self.place())

    def parameter(self, fake: Fake, like, wanted) -> Fake:
        """Return a tensor made here as a parameter, a leaf if ``wanted``."""
        made = self.fake(fake.node, fake._rush_meta, False, fake.inputs, like)
        self.require_grad(made, wanted)
        return made

    def record(self, op, args, kwargs):
        fakes = list(fakes_in((args, tuple(kwargs.values()))))
        if self.misses_errors is not None and self.misses_errors():  # the check of sizes happens now
            self.sizes_read.update(*(f.inputs for f in fakes))
        try:
            if any(f.stands_for is not None for f in fakes):
                found = self.with_reals(op, args, kwargs)
                if found is None:
                    return self.record(op, tuple(map(as_fixed, args)), {k: as_fixed(v) for k, v in kwargs.items()})
            else:
                found = infer(op, args, kwargs, self.symbolic)
        except ValueNeeded:
            if not any(f.node in self.known for f in fakes[1:]):
                raise
            return self.record(op, (args[0], *map(self.as_number, args[1:])),
                               {k: self.as_number(v) for k, v in kwargs.items()})
        if not found.writes and None not in found.same:
            results = tuple(self.unchanged(fakes[k]) for k in found.same)
            return results if found.several else results[0]
        inputs = frozenset().union(*(f.inputs for f in fakes)) if fakes else frozenset()
        meta = tuple(found.metas) if found.several else found.metas[0]
        node = Node(self.name("t"), op, self.lowered(args), {k: self.lowered(v) for k, v in kwargs.items()}, meta,
                    where=self.where())
        self.nodes.append(node)
        grad = bool(mine.grad and any(f._rush_needs_grad for f in fakes) and not op.traits.get("detaches"))
        self.graded |= grad
        if found.writes:
            self.written(node, [getattr(fakes[k], "original", fakes[k]) for k in found.writes], grad)
        if found.base is not None:
            self.viewed[node] = fakes[found.base]
            self.bases[node], self.starts[node] = fakes[found.base].node, found.start
        results = tuple(self.result(node, k, one, same, fakes, grad, inputs, found.several)
                        for k, (one, same) in enumerate(zip(found.metas, found.same)))
        if not found.several and not found.writes and type(meta.numel) is int and meta.numel == 1 and all(
                f.node in self.known for f in fakes) and not any(expressions_in((args, tuple(kwargs.values())))):
            self.known[node] = op, args, kwargs
        return results if found.several else results[0]

    def with_reals(self, op, args, kwargs):
        """Return an operator's result for run-time floats if it equals that for their current values, and assume the
        conditions on them that it evaluates.  None if it needs their values."""
        conditions = Conditions()
        try:
            found = infer(op, args, kwargs, self.symbolic, conditions)
        except (TypeError, ValueError, RuntimeError, AttributeError, Break):
            return None
        now = infer(op, tuple(map(as_hinted, args)), {k: as_hinted(v) for k, v in kwargs.items()}, self.symbolic)
        same = found.metas == now.metas and found.several == now.several and (bool(found.writes),
                                                                              found.base is None) == (bool(now.writes),
                                                                                                      now.base is None)
        if conditions.fixed or not same:
            return None
        for condition in conditions.each():
            self.assume(condition)
        return found

    def as_number(self, value):
        """Return a tensor with a known value as a number, also within tuples; others unchanged."""
        if type(value) in (tuple, list):
            return type(value)(map(self.as_number, value))
        known = self.value_of(value) if isinstance(value, Fake) else None
        return value if known is None else known.item()

    def value_of(self, fake):
        """Return the value of a one-element tensor computed from constants of the program alone; None for others."""
        known = self.known.get(fake.node)
        if type(known) is tuple:
            op, args, kwargs = known

            def at(value):
                return type(value)(map(at, value)) if type(value) in (tuple, list) else self.value_of(
                    value) if isinstance(value, Fake) else value

            given, named = at(args), {k: at(v) for k, v in kwargs.items()}
            with Suspended(self), precision(0):
                known = self.known[fake.node] = op(*given, **named)
        return known

    def node(self, op, args, meta) -> Node:
        """Append a new node."""
        made = Node(self.name("t"), op, args, {}, meta, where=self.where())
        self.nodes.append(made)
        return made

    def unchanged(self, fake):
        """Return an argument that is the result itself, which its sizes may have decided."""
        self.sizes_read.update(fake.inputs)
        return getattr(fake, "original", fake)

    def result(self, node, k, meta, same, fakes, grad, inputs, several):
        """Return the k-th result of a node."""
        if same is not None:
            return getattr(fakes[same], "original", fakes[same])
        if several:
            node = Node(self.name("t"), PICK, (node, k), {}, meta, where=node.where)
            self.nodes.append(node)
        return self.fake(node, meta, grad and meta.dtype.is_inexact, inputs)

    def written(self, node, targets, grad):
        """Note that a node mutates tensors."""
        roots = {self.root(target.node) for target in targets}
        outside = any(root.op is None for root in roots)  # inputs may share memory
        self.read_before = {key: found for key, found in self.read_before.items() if not outside
                            and roots.isdisjoint(map(self.root, nodes_in(key)))}
        self.writers.add(node)
        self.targets[node] = [target.node for target in targets]
        if not self.copies.isdisjoint(roots):
            raise Break("RB014", "a write into a view of a tensor that wraps others")
        for target in targets:
            self.check_storage(target.node)
            self.known = {n: v for n, v in self.known.items() if self.root(n) is not self.root(target.node)}
            if grad:
                target._rush_needs_grad = 1
                self.history |= self.root(target.node).op is None

    def check_storage(self, node):
        """Raise Break for a target that may alias elements of an input's storage that are not elements of the input: a
        program writes only elements of its inputs."""
        while (base := self.bases.get(node)) is not None:
            if node.op is OPS["_as_strided"] and has_gaps(base.meta):
                raise Break("RB015", "a write through as_strided() of a tensor with gaps in its storage")
            node = base

    def root(self, node):
        """Return the node that owns a node's memory."""
        while node in self.bases:
            node = self.bases[node]
        return node

    def lowered(self, value):
        if isinstance(value, Fake):
            return value.node
        if type(value) in (list, tuple):
            return type(value)(map(self.lowered, value))
        return value

    # --- data-dependent numbers ---------------------------------------------------------------------------------------
    def read_once(self, key, make):
        """Return what ``make()`` records, once between writes."""
        found = self.read_before.get(key)
        if found is None:
            found = self.read_before[key] = make()
        return found

    def reading(self, operator: Reading, args, kind) -> Fake:
        """Return a number that Python computes between programs, as a tensor for operators."""
        node = Node(self.name("u"), operator, args, {}, NUMBER_METAS[kind], where=self.where(), weak=True)
        self.nodes.append(node)
        made = self.fake(node, node.meta, False, frozenset())
        made.weak = True
        return made

    def symbol(self, operator: Reading, args, low=-INFINITY) -> Expr:
        """Return an int that Python reads between programs, as a symbol."""
        node = Node(self.name("u"), operator, args, {}, NUMBER_METAS[int], where=self.where())
        self.nodes.append(node)
        made = self.shape_env.symbol(node.name, low)
        self.shape_env.unbacked[made], self.symbolic = node, True
        return made

    def item(self, tensor: Fake):
        """Return the only element: a symbol for an int, a weak tensor for a float or a bool."""
        if (self.shape_env is None or tensor.weak or tensor.dtype.is_complex
            or tensor._rush_meta.shape
            and tensor.numel() != 1):
            raise Break("RB003", "item()")
        if tensor.dtype.is_floating_point or tensor.dtype is bool_:
            kind = bool if tensor.dtype is bool_ else float
            return self.read_once((ITEM, tensor.node), lambda: self.reading(ITEM, (tensor.node,), kind))
        return self.read_once((ITEM, tensor.node), lambda: self.symbol(ITEM, (tensor.node,)))

    def number_of(self, e: Expr) -> Fake:
        """Return a data-dependent integer as a tensor for operators."""
        return self.read_once((NUMBER, e), lambda: self.reading(NUMBER, (e,), int))

    def compute(self, symbol: str, a, b, kind) -> Fake:
        """Record arithmetic of data-dependent numbers, with Python's semantics, between programs."""
        return self.reading(OPERATORS[symbol], (self.lowered(a), self.lowered(b)), kind)

    def require(self, condition, error: Exception):
        """Record that the program raises the error unless a condition on numbers holds."""
        self.check(REQUIRE, condition, error)

    def below_levels(self):
        """Return a context in which operators are recorded as they are, whatever transforms the program is under."""
        level = next((one for one in mine.stack[mine.stack.index(self):] if isinstance(one, Level)), None)
        return nullcontext() if level is None else Suspended(level)

    def check(self, operator: Effect, condition, error: Exception):
        """Record a call that raises the error unless a condition holds."""
        node = Node(self.name("t"), operator, (self.lowered(condition), error), {}, None, where=self.where())
        self.nodes.append(node)
        self.writers.add(node)

    def measure(self, op, args, kwargs):
        """Record a call that runs between programs, since the sizes of its results depend on data."""
        return self.read_once((op, self.key(args), self.key(tuple(kwargs.items()))),
                              lambda: self.measuring(op, args, kwargs))

    def key(self, value):
        """Return arguments as a key: tensors by their nodes."""
        return tuple(map(self.key, value)) if isinstance(value, (tuple, list)) else value.node if isinstance(
            value, Fake) else (type(value), value)

    def measuring(self, op, args, kwargs):
        unknown: list = []

        def some():
            unknown.append(self.shape_env.symbol(self.name("u"), 0))
            return unknown[-1]

        with Suspended(self):
            metas = op.rules["unmeasured"](some, *args, **kwargs)
        several = isinstance(metas, tuple)
        node = self.node(op, self.lowered(args), metas)
        node.params.update((k, self.lowered(v)) for k, v in kwargs.items())
        inputs = frozenset().union(*(f.inputs for f in fakes_in((args, tuple(kwargs.values())))))
        results = tuple(self.result(node, k, meta, None, (), False, inputs, several)
                        for k, meta in enumerate(metas if several else (metas,)))
        for symbol in unknown:
            shown, dim = next((r, k) for r in results for k, n in enumerate(r._rush_meta.shape) if n is symbol)
            self.shape_env.unbacked[symbol] = made = Node(symbol.arg[0], SIZE, (shown.node, dim), {}, NUMBER_METAS[int],
                                                      where=node.where)
            self.nodes.append(made)
        self.symbolic = True
        return results if several else results[0]

    # --- the result ---------------------------------------------------------------------------------------------------
    def graph(self, outputs, symbols=()) -> Graph:
        """Return the program that computes these nodes and all mutations; symbols in arguments become inputs."""
        live, kept = set(outputs), []
        for node in reversed(self.nodes):
            if node in live or node in self.writers:
                kept.append(node)
                live.update(self.read_by(node))
        kept.reverse()
        recorded = kept
        if in_stages(kept):
            kept = self.in_turn(kept)
        if self.regions:
            from .regions import fold  # which runs graphs, and so reads this file's nodes
            kept = fold(kept, outputs, self)
        # numbers first: operators mark them by the bits of an int
        inputs = sorted((n for n in self.inputs if n in live), key=lambda n: not n.weak)
        if symbols:
            used = frozenset().union(*(e.free for n in kept
                                       for e in expressions_in((n.args, tuple(n.params.values())))))
            inputs += [Node(s.arg[0], None, meta=NUMBER_METAS[int]) for s in symbols if s in used]
        made = Graph(inputs, kept, list(outputs))
        made.views, made.changed = dict(self.bases), self.changed_within()
        if kept is not recorded and not self.regions:
            made.recorded = recorded
        return made

    def changed_within(self):
        """Return the nodes whose memory is written if framework operators, whose aliasing is known, made all of them;
        else None."""
        if self.leaves or not self.writers <= self.targets.keys():
            return None
        found = frozenset(self.root(target) for writer in self.writers for target in self.targets[writer])
        return found if all(isinstance(n.op, Op) and OPS.get(n.op.name) is n.op and "library" not in n.op.traits
                            for n in found) else None

    def read_by(self, node) -> list:
        """Return the nodes that a node reads: its arguments, and those that compute numbers in them."""
        given = node.args, tuple(node.params.values())
        found = list(nodes_in(given))
        if self.shape_env is not None and self.shape_env.unbacked:
            found += [self.shape_env.unbacked[s] for e in expressions_in(given) for s in e.free
                      if s in self.shape_env.unbacked]
        return found

    def in_turn(self, nodes) -> list:
        """Return the nodes in as few programs as possible, with Python's reads between them: programs run at even
        times, the rest at odd ones."""
        known, read, written, times = {}, {}, {}, {}
        # writes and checks stay in order, as do checks and nodes that may raise
        checked = wrote = raised = -1
        for node in nodes:
            sources, targets = self.read_by(node), [self.root(t) for t in self.targets.get(node, ())]
            roots = [self.root(s) for s in sources]
            time = max([-1, *(known.get(s, -1) for s in sources), *(written.get(r, -1) for r in roots),
                        *(read.get(t, -1) for t in targets)])
            is_check, is_raising = isinstance(node.op, Effect), may_raise(node, sources)
            if targets or is_check or is_raising:
                time = max(time, checked, wrote if is_check else -1, raised if is_check else -1)
            time += time % 2 != between(node)
            checked = max(checked, time) if is_check else checked
            wrote = max(wrote, time) if targets else wrote
            raised = max(raised, time) if is_raising else raised
            known[node] = times[node] = time
            read.update((r, max(time, read.get(r, -1))) for r in roots)
            written.update((t, time) for t in targets)
        return sorted(nodes, key=times.__getitem__)


def as_plain(value):
    """Return a number of the type of a run-time scalar, for type checks."""
    return 0.0 if type(value) is Real else 1 if type(value) is Expr else value


def may_raise(node, sources) -> bool:
    """True if an operator computes anything but bools from a tensor of integers, which may be indices out of range or
    zero divisors: its program raises an error then."""
    return isinstance(node.op, Op) and getattr(node.meta, "dtype", None) is not bool_ and any(
        isinstance(s.meta, Meta) and not s.weak and s.meta.dtype is not bool_ and not s.meta.dtype.is_inexact
        for s in sources)


def expressions_in(value):
    """Return the Exprs within nested tuples and lists."""
    if type(value) is Expr:
        yield value
    elif type(value) in (list, tuple, Size):
        for item in value:
            yield from expressions_in(item)
