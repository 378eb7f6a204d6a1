"""Training steps: backward passes and optimizers as nodes of the graph; gradients become attributes of tensors at the
end."""
from __future__ import annotations

import contextlib
import weakref

from ..autograd.backward import _tensor_backward, backward, grad
from ..autograd.program import gradients, leaf
from ..core.interpret import Suspended, recording
from ..core.meta import Meta
from ..core.native import Tensor
from ..core.op import OPS
from ..graph.graph import nodes_in
from ...optim import lr_scheduler
from ...optim.optimizer import Optimizer
from ...utils.checkpoint import checkpoint
from .errors import Break
from .parts import CALLED, Part
from .regions import computed_twice
from .values import Constant, Lazy, Mapping, Number, Object, Sequence, TensorValue, WrapperValue

# the steps of schedules
STEPS = [cls.step for cls in vars(lr_scheduler).values()
         if isinstance(cls, type) and issubclass(cls, lr_scheduler.LRScheduler) and "step" in vars(cls)]


class Training(Part, part="training"):
    """Capture component that records backward passes.  ``used``: the nodes whose history a backward pass has used
    up."""

    needs = ("arithmetic", "attributes", "calls", "containers", "framework", "guarding", "hooks", "numbers",
             "output", "outside", "values", "writes")

    def __init__(self, machine):
        super().__init__(machine)
        self.used: set = set()  # nodes of backward passes that use their history up
        self.computed: list = []  # Python computations of optimizers before the graph runs
        self.ends_with: list = []  # optimizers that the segment is useless without
        self.later: dict = {}  # id -> an object that a deferred call will change

    def reach(self, starts) -> dict:
        """Return {node: those of ``starts`` that a gradient of it flows to}."""
        found, owners, nothing = {node: frozenset((node,)) for node in starts}, {}, frozenset()
        for node in self.machine.recorder.nodes:
            if detaches(node):
                continue
            if node in self.machine.recorder.bases:
                base = self.machine.recorder.bases[node]
                owners[node] = owners.get(base, base)
            arguments = list(nodes_in((node.args, tuple(node.params.values()))))
            reached = nothing.union(*(found.get(n, nothing) | found.get(owners.get(n), nothing) for n in arguments))
            for target in (node, *self.machine.recorder.targets.get(node, ())):
                found[target] = found.get(target, nothing) | reached
                if target in owners:
                    found[owners[target]] = found.get(owners[target], nothing) | reached
        return found

    def inputs(self) -> dict:
        """Return {graph input node: its TensorValue}."""
        values = (v for v in self.outside.wrapped.values() if type(v) is TensorValue)
        return {v.fake.node: v for v in values if v.fake.node.op is None}

    # --- backward -----------------------------------------------------------------------------------------------------
    def leaves_of(self, outputs):
        """Return the leaves that a backward pass from these nodes reaches, in the order of first use."""
        inputs = {node: value for node, value in self.inputs().items() if value.fake._rush_needs_grad}
        inputs.update((node, self.values.from_python(made.fake)) for node, made in self.machine.recorder.leaves.items())
        found = self.reach([*inputs, *self.outside.opened])
        if any(not found.get(o, frozenset()).isdisjoint(self.outside.opened) for o in outputs):
            raise Break("RB011", "backward() to tensors that wrap others")
        reached = frozenset().union(*(found.get(o, ()) for o in outputs))
        leaves = [value for node, value in inputs.items() if node in reached]
        for value in leaves:
            if value.source is not None and not value.real.is_leaf:
                raise Break("RB011", "backward() into history from outside of the compiled function")
            self.check_written(value, outputs)
            self.check_hooks(value)
        return leaves

    def check_written(self, leaf, outputs):
        """Raise Break if a leaf was written after these outputs had read it: the engine would detect the
        modification."""
        recorder, node = self.machine.recorder, leaf.fake.node
        writes = [k for k, n in enumerate(recorder.nodes)
                  if any(recorder.root(t) is node for t in recorder.targets.get(n, ()))]
        if writes:
            readers = {n for n in recorder.nodes[:writes[-1]] if node in nodes_in((n.args, tuple(n.params.values())))
                       and n not in recorder.targets and not detaches(n)}
            found = self.reach(readers)
            if any(found.get(o) for o in outputs):
                raise Break("RB011", "backward() of values that were read before a parameter was written")

    def check_hooks(self, leaf):
        """Guard the hooks of a leaf and return them."""
        if leaf.source is None:
            return (), ()
        real, source = leaf.real, leaf.source
        hooks = tuple((real._rush_hooks or {}).values()), tuple(getattr(real, "_rush_post_accumulate_hooks",
                                                                        {}).values())
        self.guarding.guard(f"{self.guarding.constant_name(same_hooks)}({{0}}, {self.guarding.constant_name(hooks)})",
                            source)
        return hooks

    def derive(self, outputs, weights, inputs, again, recorded):
        """Record a node of gradients; return one TensorValue for each input."""
        recorder = self.machine.recorder
        arguments = (tuple(o.fake.node for o in outputs), tuple(w and w.fake.node for w in weights),
                     tuple(i.fake.node for i in inputs), again, recorded)
        metas = tuple(i.fake._rush_meta.like(tuple(i.fake._rush_meta.shape)) for i in inputs)
        node = recorder.node(gradients, arguments, metas)
        if not again:
            self.used.add(node)
        depends = frozenset().union(*(v.fake.inputs for v in (*outputs, *inputs)))
        return [self.values.from_python(recorder.result(node, k, meta, None, (), recorded, depends, True))
                for k, meta in enumerate(metas)]

    def weights_of(self, outputs, given):
        """Return the weights of outputs as Values, None for one."""
        given = self.values.force(given)
        given = [given] * len(outputs) if isinstance(given, Constant) else [given] if isinstance(
            given, TensorValue) else self.containers.expanded(given)
        weights = [None if isinstance(self.values.force(w), Constant) else self.values.force(w) for w in given]
        for output, weight in zip(outputs, weights):
            fake = output.fake
            if not fake._rush_needs_grad or weight is None and fake.numel() != 1 or weight is not None and (
                    not isinstance(weight, TensorValue) or tuple(weight.fake.shape) != tuple(fake.shape)):
                raise Break("RB007", "backward() that raises")
        return weights

    def tensors(self, value):
        """Return the TensorValues of one argument: a tensor, or a list of them."""
        value = self.values.force(value)
        values = [value] if isinstance(value, TensorValue) else [self.values.force(v)
                                                                 for v in self.containers.expanded(value)]
        if not all(isinstance(v, TensorValue) and not isinstance(v, WrapperValue) for v in values):
            raise Break("RB011", "a backward pass of something other than tensors, or of tensors that wrap others")
        return values

    def flag(self, value, default=False):
        found = self.values.known(value)
        return default if found is None else bool(found)

    @CALLED.by(_tensor_backward)
    def tensor_backward(self, tensor, gradient=Constant(None), retain_graph=Constant(None),
                        create_graph=Constant(False), inputs=Constant(None)):
        """``tensor.backward()``."""
        return self.backward(tensor, gradient, retain_graph, create_graph, inputs)

    @CALLED.by(backward)
    def backward(self, tensors, grad_tensors=Constant(None), retain_graph=Constant(None), create_graph=Constant(False),
                 inputs=Constant(None)):
        """``autograd.backward``: the gradients of all leaves, and their accumulation into ``.grad``."""
        self.hooks.needed()
        outputs, recorded = self.tensors(tensors), self.flag(create_graph)
        weights = self.weights_of(outputs, grad_tensors)
        leaves = self.leaves_of([o.fake.node for o in outputs])
        if not isinstance(self.values.force(inputs), Constant):
            chosen = self.tensors(inputs)
            if not all(any(c is one for one in leaves) for c in chosen):
                raise Break("RB011", "backward() into chosen inputs that are not leaves of the graph")
            leaves = chosen
        observed = self.hooks.observed_by([o.fake.node for o in outputs])
        before = [self.values.force(self.attributes.getattr(leaf, "grad")) for leaf in leaves]
        found = self.derive(outputs, weights, [*observed, *leaves], self.flag(retain_graph, recorded), recorded)
        for tensor, gradient in zip(observed, found):
            self.hooks.observed(tensor, gradient)
        for leaf, gradient in zip(leaves, found[len(observed):]):
            self.deliver(leaf, gradient, before.pop(0), recorded)
        return Constant(None)

    def deliver(self, leaf, gradient, before, recorded):
        """Accumulate a gradient into a leaf, as the engine does; hooks of the leaf run."""
        _, afterwards = self.check_hooks(leaf)
        gradient = self.accumulated(before, self.hooked(leaf, gradient), recorded)
        self.writes.put(leaf, "grad", gradient, False)
        for hook in afterwards:
            self.machine.now(self.values.from_python(hook), [leaf])

    def hooked(self, leaf, gradient):
        """Return a gradient after the hooks of a tensor from outside."""
        for hook in self.check_hooks(leaf)[0]:
            changed = self.machine.now(self.values.from_python(hook), [gradient])
            gradient = gradient if isinstance(changed, Constant) else changed
        return gradient

    def accumulated(self, before, gradient, recorded):
        """Return a gradient added to the one before, if any."""
        if not isinstance(before, TensorValue):
            return gradient
        if recorded or before.fake._rush_needs_grad:
            return self.framework.run_framework(OPS["add"], [before, gradient], {})
        with recording(False):
            return self.framework.run_framework(OPS["add_"], [before, gradient], {})

    @CALLED.by(grad)
    def grad(self, outputs, inputs, grad_outputs=Constant(None), retain_graph=Constant(None),
             create_graph=Constant(False), only_inputs=None,
             allow_unused=Constant(None), is_grads_batched=Constant(False), materialize_grads=Constant(False)):
        """``autograd.grad``: gradients with respect to any tensors of the graph."""
        if self.flag(is_grads_batched):
            raise Break("RB011", "autograd.grad(is_grads_batched=True)")
        self.hooks.needed()
        outputs, inputs, recorded = self.tensors(outputs), self.tensors(inputs), self.flag(create_graph)
        weights = self.weights_of(outputs, grad_outputs)
        if self.hooks.observed_by([o.fake.node for o in outputs]):
            raise Break("RB011", "autograd.grad() of values with hooks on their gradients")
        used = self.dependent([o.fake.node for o in outputs], inputs)
        if not all(used) and not self.flag(materialize_grads):
            raise Break("RB011", "autograd.grad() of an input that is not used")
        found = self.derive(outputs, weights, inputs, self.flag(retain_graph, recorded), recorded)
        return Sequence(tuple, [self.hooked(leaf, gradient) for leaf, gradient in zip(inputs, found)])

    def dependent(self, outputs, inputs) -> list:
        """Return for each of these inputs whether the outputs depend on it differentiably."""
        if any(not i.fake._rush_needs_grad for i in inputs):
            raise Break("RB007", "autograd.grad() that raises")
        for value in inputs:
            self.check_written(value, outputs)
        found = self.reach([i.fake.node for i in inputs])
        reached = frozenset().union(*(found.get(o, ()) for o in outputs))
        return [i.fake.node in reached for i in inputs]

    # --- use of history -----------------------------------------------------------------------------------------------
    def spent(self, outputs) -> list:
        """Return for each of these nodes whether a backward pass has used up part of its history."""
        over, pending = set(), [n for node in self.used for n in node.args[0]]
        while pending:
            node = pending.pop()
            if node not in over and node.op is not None and not detaches(node):
                over.add(node)
                pending += nodes_in((node.args, tuple(node.params.values())))
        found = self.reach(over)
        return [bool(found.get(node)) for node in outputs]

    # --- gradients as attributes --------------------------------------------------------------------------------------
    def set_grad(self, owner, value):
        """``tensor.grad = value``."""
        value = self.values.force(value)
        if owner.fake.node not in self.machine.recorder.leaves and (owner.source is None or not owner.real.is_leaf):
            raise Break("RB011", "setting .grad of a tensor made in the compiled function")
        if not isinstance(value, TensorValue) and not (isinstance(value, Constant) and value.value is None):
            raise Break("RB007", "setting .grad to something other than a tensor")
        if isinstance(value, TensorValue) and (tuple(value.fake.shape) != tuple(owner.fake.shape)
                                               or value.fake.dtype is not owner.fake.dtype):
            raise Break("RB007", "setting .grad to a tensor of another shape or dtype")
        self.writes.put(owner, "grad", value, False)

    # --- checkpoints --------------------------------------------------------------------------------------------------
    @CALLED.by(checkpoint)
    def checkpoint(self, function, *arguments, use_reentrant=Constant(None), context_fn=None, determinism_check=None,
                   debug=None, early_stop=None,
                   preserve_rng_state=Constant(True), **keywords):
        """``utils.checkpoint``: a call whose nodes become one that is recomputed.  RNG stream offsets are the same
        anyway."""
        if context_fn is not None or not self.flag(preserve_rng_state) or keywords and self.flag(use_reentrant, True):
            raise Break("RB001", "a checkpoint with custom contexts, or other random numbers")
        recorder = self.machine.recorder
        start = len(recorder.nodes)
        result = self.machine.now(self.values.force(function), list(arguments), keywords)
        region = object()
        for node in computed_twice(recorder.nodes[start:], recorder):
            recorder.regions[node] = region  # the outermost of nested ones
        return result

    # --- optimizers ---------------------------------------------------------------------------------------------------
    def optimizer_of(self, owner):
        """Return the optimizer behind a Value, guarded against changes."""
        owner = self.values.force(owner)
        if not isinstance(owner, Object) or not isinstance(owner.value, Optimizer):
            raise Break("RB004", "an optimizer made in the compiled function")
        changed = {name for (_, name), (v, _) in self.writes.owners.items() if isinstance(v, Object)
                   and v.value is owner.value}
        if not changed <= NOTED:
            raise Break("RB004", "an optimizer that was changed in the compiled function")
        return owner.value, owner.source or self.guarding.constant_source(owner.value)

    @CALLED.by(Optimizer._rush_update_all)
    def optimizer_step(self, owner):
        """Record the part of ``optimizer.step()`` between its hooks: tensor updates become nodes; counters and numbers
        are computed in Python before the graph runs."""
        optimizer, source = self.optimizer_of(owner)
        self.check_later(optimizer)
        if any(map(self.altered, (optimizer.param_groups, *(group["params"] for group in optimizer.param_groups)))):
            raise Break("RB004", "the step of an optimizer whose parameters were changed in the compiled function "
                                 "before it")
        chosen = Chosen(self.settings_set(optimizer))
        with chosen.being(chosen.now):
            self.planned_step(optimizer, source, chosen)
        return Constant(None)

    def settings_set(self, optimizer) -> list:
        """Return (group, key, number) for each setting that the program has set."""
        found = []
        for group in filter(self.altered, optimizer.param_groups):
            known = self.outside.wrapped[id(group)]
            if known.items.keys() != group.keys():
                raise Break("RB004", "the step of an optimizer that got other settings in the compiled function "
                                     "before it")
            for key, value in known.items.items():
                value = value if isinstance(value, Lazy) else self.values.force(value)
                if isinstance(value, Number) and not self.numbers.unknown(value) or isinstance(
                        value, Constant) and type(
value.value) in (int, float):
                    found.append((group, key, value, self.guarding.text_of(value)))
                    if key not in FREE:
                        self.arithmetic.truth(value)
                elif not isinstance(value, Lazy) and not (isinstance(value, (Constant, Object))
                                                          and value.value is group[key]):
                    raise Break("RB004", "the step of an optimizer whose settings were changed in the compiled "
                                         "function before it")
        return found

    def planned_step(self, optimizer, source, chosen):
        """Record a step."""
        due = []
        for group in optimizer.param_groups:
            if group.get("differentiable"):
                raise Break("RB001", "a differentiable optimizer")
            for p in group["params"]:
                value = self.outside.wrap(p, self.guarding.constant_source(p))
                gradient = self.values.force(self.attributes.getattr(value, "grad"))
                if isinstance(gradient, TensorValue):
                    due.append((value, gradient, group))
        with recording(False):
            for p, gradient, group in due:
                if not optimizer.state[p.real]:
                    with Suspended(self.machine.recorder):
                        optimizer.state[p.real].update(optimizer._rush_prepare(p.real, p.real, group))
        if any(p.real.is_complex() for p, _, _ in due) or getattr(optimizer, "_rush_untouched", ()):
            raise Break("RB001", "the first step of an optimizer with dampening, or complex parameters")
        plan = Numbers(optimizer, [(p.real, group) for p, _, group in due], chosen)
        self.guarding.guard(f"{self.guarding.constant_name(plan)}.holds({{0}})", source)
        numbers = plan.places(len(self.computed))
        self.updates(optimizer, due, numbers)
        self.computed.append((plan, chosen.texts))
        self.ends_with.append(optimizer)

    def altered(self, container) -> bool:
        """True if the program has changed a container from outside."""
        known = self.outside.wrapped.get(id(container))
        return known is not None and known.changed

    def updates(self, optimizer, due, places):
        """Record the updates; ``places``: the source strings of each parameter's numbers."""
        inputs: dict = {}

        def number(text):
            if text not in inputs:
                inputs[text] = self.machine.recorder.number(float)
                self.outside.graph_inputs[inputs[text].node] = text, None
            return inputs[text]

        with recording(False):
            for (p, gradient, group), texts in zip(due, places):
                state = {k: self.outside.lift(v) if isinstance(v, Tensor) and k not in optimizer._rush_counters else v
                         for k, v in optimizer.state[p.real].items()}
                g = -gradient.fake if group.get("maximize") else gradient.fake
                optimizer._rush_update(p.fake, g, state, group, *map(number, texts))

    @CALLED.by(*STEPS, told=True)
    def scheduler_step(self, function, owner, *arguments, **keywords):
        """A schedule's ``step()``, which only sets numbers in Python: it is called after the graph has run, and its
        changes cannot be read before."""
        known = self.values.force(owner)
        known = known.value if isinstance(known, Object) else None
        optimizer = getattr(known, "optimizer", None)
        met = [self.outside.wrapped.get(id(each)) for each in getattr(optimizer, "param_groups", ())]
        written = any(id(v) in (id(self.outside.wrapped.get(id(known))), *map(id, met))
                      for v, _ in self.writes.owners.values())
        if known is None or written or any(isinstance(v, Mapping) for v in met) or not isinstance(optimizer, Optimizer):
            return self.calls.inline(self.calls.as_function(self.values.from_python(function)), [owner, *arguments],
                                     keywords)
        self.later |= {id(known): known, id(optimizer): optimizer}
        return self.output.put_off(self.values.from_python(function),
                                   [self.values.force(owner), *map(self.output.as_passed, arguments)],
                            {k: self.output.as_passed(v) for k, v in keywords.items()})

    def check_later(self, value):
        """Raise Break on reading an object that a deferred call will change after the graph has run."""
        if id(value) in self.later:
            raise Break("RB004", f"reading a {type(value).__name__} after the step of a schedule, which is taken when "
                                 "the graph has run")

    @CALLED.by(Optimizer.zero_grad)
    def zero_grad(self, owner, set_to_none=Constant(True)):
        """``optimizer.zero_grad()``."""
        optimizer, source = self.optimizer_of(owner)
        groups = Groups(optimizer)
        self.guarding.guard(f"{self.guarding.constant_name(groups)}.holds({{0}})", source)
        for p in groups.parameters:
            leaf = self.outside.wrap(p, self.guarding.constant_source(p))
            if self.flag(set_to_none):
                self.writes.put(leaf, "grad", Constant(None), False)
            else:
                self.zero(self.values.force(self.attributes.getattr(leaf, "grad")))
        return Constant(None)

    def zero(self, gradient):
        """Fill a gradient with zeros in place, if there is one."""
        if isinstance(gradient, TensorValue):
            if gradient.fake._rush_needs_grad:
                raise Break("RB001", "zero_grad(set_to_none=False) of gradients that have a history")
            with recording(False):
                self.framework.run_framework(OPS["zero_"], [gradient], {})


def detaches(node) -> bool:
    """True if no gradient flows through a node."""
    plain = node.op is leaf or node.op is gradients and not node.args[-1]
    return plain or bool(getattr(node.op, "traits",
                                 {}).get("detaches")) or type(node.meta) is Meta and not node.meta.dtype.is_inexact


def same_hooks(leaf, hooks) -> bool:
    """True if a leaf has these hooks on its gradient, and these after accumulation."""
    if leaf._rush_hooks is None and "_rush_post_accumulate_hooks" not in leaf.__dict__:
        return hooks == ((), ())
    return hooks == (tuple((leaf._rush_hooks or {}).values()),
                     tuple(getattr(leaf, "_rush_post_accumulate_hooks", {}).values()))


def kept(value):
    """Return what a compiled step assumes of a setting: numbers are run-time scalars, except whether they are zero."""
    if isinstance(value, (tuple, list)):
        return tuple(map(kept, value))
    if isinstance(value, Tensor):
        return Tensor
    return value != 0 if type(value) in (int, float) else value


class Groups:
    """The parameters of an optimizer, as a guard."""

    def __init__(self, optimizer):
        self.lists = [list(group["params"]) for group in optimizer.param_groups]
        self.parameters = [p for each in self.lists for p in each]
        self.ids = [list(map(id, each)) for each in self.lists]

    def holds(self, optimizer) -> bool:
        groups = optimizer.param_groups
        return len(groups) == len(self.ids) and all(list(map(id, group["params"])) == ids
                                                    for group, ids in zip(groups, self.ids))


NOTED = {"_opt_called"}  # attributes that a step sets on its optimizer and no step reads
FREE = ("params", "lr", "initial_lr")  # entries of a group that may change without a new capture


class Chosen:
    """Settings of an optimizer that the program sets: their values ``now``, and the Python ``texts`` of the values."""

    def __init__(self, settings):
        self.places = [(group, key) for group, key, _, _ in settings]
        self.now = [v.hint if isinstance(v, Number) else v.value for _, _, v, _ in settings]
        self.texts = [text for _, _, _, text in settings]
        self.keys = {(id(group), key) for group, key in self.places}

    def set(self, values):
        for (group, key), value in zip(self.places, values):
            group[key] = value

    @contextlib.contextmanager
    def being(self, values):
        """Return a context in which they have these values; the program itself sets them after the graph has run."""
        before = [group[key] for group, key in self.places]
        self.set(values)
        try:
            yield
        finally:
            self.set(before)


class Numbers(Groups):
    """The Python part of a compiled optimizer step: it advances counters and returns the numbers of the updates.

    As a guard: parameters, settings and state are unchanged, and counters that agreed still do.
    """

    def __init__(self, optimizer, due, chosen):
        super().__init__(optimizer)
        self.reference, self.due, self.chosen = weakref.ref(optimizer), due, chosen
        self.settings = self.settings_of(optimizer)
        self.states = [(p, optimizer.state[p], dict(optimizer.state[p])) for p, _ in due]
        self.agreement = self.agreement_of()

    optimizer = property(lambda self: self.reference())  # a weak reference: its state is released with it

    def settings_of(self, optimizer):
        return [{k: kept(v) for k, v in group.items() if k not in FREE and (id(group), k) not in self.chosen.keys}
                for group in optimizer.param_groups]

    def agreement_of(self):
        """Return for each parameter the first with the same numbers."""
        first, optimizer = {}, self.optimizer
        return [first.setdefault(optimizer._rush_agreement(optimizer.state[p], group), k)
                for k, (p, group) in enumerate(self.due)]

    def holds(self, optimizer) -> bool:
        if optimizer is not self.optimizer or not super().holds(optimizer) or self.settings != self.settings_of(
                optimizer):
            return False
        state = optimizer.state
        for p, own, before in self.states:
            if state.get(p) is not own or own.keys() != before.keys() or any(own[k] is not v
                                                                             for k, v in before.items()):
                return False
        return self.agreement == self.agreement_of()

    def places(self, at) -> list:
        """Return the source strings of the numbers of each parameter's update."""
        optimizer, made, found = self.optimizer, 0, {}
        for k, (p, group) in enumerate(self.due):
            if self.agreement[k] == k:
                counters = optimizer._rush_agreement(optimizer.state[p], group)[1:]
                count = len(optimizer._rush_numbers(group, *counters)[1])
                found[k] = [f"numbers{at}[{made + j}]" for j in range(count)]
                made += count
        return [found[k] for k in self.agreement]

    def __call__(self, *chosen) -> list:
        """Count one step, with the settings that the program has ``chosen``; return the numbers of the updates."""
        known, optimizer, out = {}, self.optimizer, []
        optimizer._opt_called = True  # schedules read it; their steps are deferred until the graph has run
        with self.chosen.being(chosen):
            for k, (p, group) in enumerate(self.due):
                numbers = optimizer._rush_advance(optimizer.state[p], group, known)
                if self.agreement[k] == k:
                    out += numbers
        return out
