"""Run framework code on fake tensors, with run-time scalars in the forms it accepts."""
from __future__ import annotations

import sys
import types

from ...nn.modules.container import ModuleList, Sequential
from ...nn.modules.hooks import HOME, NAMES, OPTIONS, global_hooks
from ...nn.modules.lazy import LazyModuleMixin
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ...overrides import is_tensor_like
from ..core.devices import is_host
from ..core.dtypes import bool_, category_of, default_of, iinfo, int64
from ..core.epoch import changed
from ..core.interpret import Unwatched, recording, top
from ..core.meta import Size
from ..core.native import Op, Tensor, mine
from ..core.op import OPS, declared_scalars
from ..core.pytree import tree_flatten, tree_unflatten
from . import custom, polyfills
from .errors import Again, Break, Raised
from .module_state import is_told
from .parts import CALLED, Part
from .reals import Real
from .unbacked import Effect
from .values import IDENTITIES, PLAIN, Constant, Instance, Mapping, Number, Object, Sequence, TensorValue


def fits(number, dtype) -> bool:
    """True if an element, which may be known only when the graph runs, is in the range of an integer dtype; always True
    for other dtypes."""
    if dtype.category != int64.category:
        return True
    least, most = iinfo(dtype).min, iinfo(dtype).max
    if isinstance(number, Constant):
        return least <= number.value <= most
    given = number.fake.dtype if isinstance(number, TensorValue) else int64 if type(number.hint) is int else None
    if given is bool_:
        return True
    return given is not None and given.category == int64.category and (
        least <= iinfo(given).min and iinfo(given).max <= most)


class Framework(Part, part="framework"):
    """Capture component that runs framework code."""

    needs = ("arithmetic", "attributes", "calls", "classes", "containers", "control", "guarding", "instructions",
             "mappings", "numbers", "outside", "random", "subclasses", "values")

    @CALLED.by(LazyModuleMixin._infer_parameters)
    def initialise(self, owner, module, arguments, keywords=Constant(None)):
        """Give a module the parameters that it makes from its first arguments, and restart capture."""
        module = self.values.force(module)
        if not isinstance(module, Object):
            raise Break("RB001", "a module made in the compiled function that infers parameters from its first call")
        module = module.value
        leaves, spec = tree_flatten((self.values.concrete(arguments), self.values.concrete(keywords) or {}))
        with Unwatched():  # the substitute tensors are expanded from one element
            leaves = [OPS["empty"]((), dtype=leaf.dtype).expand(tuple(leaf._rush_meta.shape))
                      if isinstance(leaf, Tensor)
                      else leaf for leaf in leaves]
            args, kwargs = tree_unflatten(leaves, spec)
            module._infer_parameters(module, args, kwargs)
        raise Again(("initialised", id(module)))

    def allowed(self, function, arguments, keywords):
        """Record a function that users allow in graphs as one node, which calls it.  If it writes, or draws random
        numbers, its operators are recorded."""
        recorder = self.machine.recorder
        start, drawn = len(recorder.nodes), self.random.drawn
        result, leaves = self.run_framework(function, arguments, keywords), []
        if not isinstance(function, types.FunctionType) or any(map(self.varies, (*arguments, *keywords.values()))):
            return result
        spec = self.control.flattened(result, leaves)
        if not leaves:
            return self.call_in_place(function, arguments, keywords, result)
        inside = recorder.nodes[start:]
        if self.random.drawn != drawn or any(n in recorder.writers for n in inside) or any(leaf.fake.node not in inside
                                                                                    for leaf in leaves):
            return result
        del recorder.nodes[start:]
        given, named = [self.values.concrete(a) for a in arguments], {k: self.values.concrete(v)
                                                                      for k, v in keywords.items()}
        operator_of_call, tensors = custom.allowed(function, given, named)
        made = self.containers.items_of(self.run_framework(operator_of_call,
                                                           list(map(self.values.from_python, tensors)), {}))
        for one, leaf in zip(made, leaves):
            one.fake._rush_needs_grad = leaf.fake._rush_needs_grad
        return self.control.tree_of(spec, iter(made))

    def call_in_place(self, function, arguments, keywords, result):
        """Record a function without tensors in its result as a node that Python calls between programs, in the current
        mode."""
        recorder, grad = self.machine.recorder, mine.grad
        leaves, spec = tree_flatten(([self.values.concrete(a) for a in arguments],
                                     {k: self.values.concrete(v) for k, v in keywords.items()}))

        def call(*values):
            args, kwargs = tree_unflatten(list(values), spec)
            with recording(grad):
                function(*args, **kwargs)

        node = recorder.node(Effect(function.__name__, call), tuple(map(recorder.lowered, leaves)), None)
        recorder.writers.add(node)
        return result

    def setting(self, target):
        """Return the result of a framework function without arguments, a setting, and guard it."""
        found = target()
        if type(found) not in PLAIN and not isinstance(found, IDENTITIES):
            raise Break("RB001", f"{target.__name__}()")
        self.guarding.guard(self.guarding.equality(f"{self.guarding.constant_name(target)}()", found))
        return self.values.from_python(found)

    def custom_function(self, function, arguments):
        """``autograd.Function.apply``: one node; what the user's functions read from outside is guarded."""
        for written in custom.functions_of(function):
            self.calls.as_function(Object(written, self.guarding.constant_source(written)))
            for name in custom.globals_of(written):
                self.instructions.load_global(written.__globals__, name)
        operator_of_call, tensors = custom.operator(function, [self.values.concrete(a) for a in arguments])
        made = self.run_framework(operator_of_call, list(map(self.values.from_python, tensors)), {})
        if any(operator_of_call.traits["results"].specs):
            parts = map(self.values.concrete, [made] if isinstance(made, TensorValue) else made.items)
            return self.values.from_python(operator_of_call.traits["results"].close(
                self.machine.recorder, parts, operator_of_call.traits["constant"]))
        without = operator_of_call.traits["constant"]  # results without a gradient are detached
        if isinstance(made, TensorValue):
            return self.run_framework(OPS["detach"], [made], {}) if without else made
        for k in without:
            made.items[k] = self.run_framework(OPS["detach"], [self.containers.item(made, k)], {})
        return made

    # --- the framework ------------------------------------------------------------------------------------------------
    def run_framework(self, function, arguments, keywords, concrete=None):
        """Run framework code on fakes, which ``concrete`` makes of arguments; the operators it calls are recorded."""
        answer = self.subclasses.answer(function, arguments, keywords)
        if answer is not None:
            return answer
        if isinstance(function, Op) and declared_scalars(function):
            arguments, keywords = self.with_numbers(function, arguments, keywords)
        frame = self.machine.frames[-1]
        fixed, varying = ("fixed", frame.code,
                          frame.now.offset), any(map(self.varies, (*arguments, *keywords.values())))
        concrete = concrete or (self.fixed if fixed in self.machine.rules else self.passed_on)
        given = [concrete(a) for a in arguments]
        named = {k: concrete(v) for k, v in keywords.items()}
        try:
            return self.values.from_python(function(*given, **named))
        except Raised:
            raise
        except Exception as error:
            if varying and fixed not in self.machine.rules:
                raise Again(fixed) from error  # its numbers are fixed to their current values
            if isinstance(error, Break):
                raise
            if self.guarding.symbols and "static" not in self.machine.rules:
                raise Again("static") from error
            name = getattr(function, "name", None) or getattr(function, "__name__", type(function).__name__)
            raise Break("RB007", f"{name}: {type(error).__name__}: {error}") from error

    def tensor_of(self, function, arguments, keywords):
        """``torch.tensor(data)``: run-time scalars are filled in one by one when the graph runs."""
        options = {"data": Constant(None), "dtype": Constant(None), "device": Constant(None),
                   **dict(zip(("data", "dtype"), arguments)), **keywords}
        where = self.values.known(options["device"])
        if len(options) > 3 or not self.numbers_in(options["data"]) or where is not None and not is_host(where):
            return self.run_framework(function, arguments, keywords)
        numbers, shape = self.nested_numbers(options["data"])
        if any(isinstance(v, TensorValue) for v in numbers) and not self.values.known(options["dtype"]):
            return self.run_framework(function, arguments, keywords)
        chosen = self.values.known(options["dtype"]) or default_of(max(category_of(v.hint if isinstance(v, Number)
                                                                            else v.value) for v in numbers))
        if not all(fits(v, chosen) for v in numbers):
            raise Break("RB004", f"torch.tensor() of numbers that {chosen} may not represent")
        filled = [self.filled(v, chosen) for v in numbers]
        return self.run_framework(Tensor.view, [self.run_framework(OPS["stack"], [Sequence(list, filled)], {}),
                                                Constant(shape)], {})

    def filled(self, number, dtype):
        """Return a number, or a tensor of one element, as a 0-dim tensor."""
        if isinstance(number, TensorValue):
            return self.run_framework(Tensor.to, [self.run_framework(OPS["detach"], [number], {}),
                                                  self.values.from_python(dtype)], {})
        given = self.arithmetic.run_time_number(number) if isinstance(number, Number) else number
        return self.run_framework(OPS["_filled"], [given, Constant(()), self.values.from_python(dtype)], {})

    def nested_numbers(self, data):
        """Return (the numbers in nested lists, row by row; their shape); a Break if they have none."""
        data = self.values.force(data)
        if isinstance(data, Sequence):
            rows = [self.nested_numbers(self.containers.item(data, k)) for k in range(len(data.items))]
            if len({shape for _, shape in rows}) != 1:
                raise Break("RB007", "torch.tensor() of rows that differ in length")
            return [v for numbers, _ in rows for v in numbers], (len(rows), *rows[0][1])
        if isinstance(data, TensorValue) and not data.fake.dim():
            return [data], ()
        if not isinstance(data, Number) and not (isinstance(data, Constant) and type(data.value) in (bool, int, float)):
            raise Break("RB004", "torch.tensor() of run-time scalars and something else")
        return [data], ()

    def vary(self, values) -> bool:
        """True if these are numbers and some vary between calls."""
        values = list(map(self.values.force, values))
        return any(map(self.varies, values)) and all(isinstance(v, Number) and not self.numbers.unknown(v)
                                                     or isinstance(v, Constant) and type(v.value) in (int, float)
                                                     for v in values)

    def varies(self, value) -> bool:
        """True if a value is a number that varies between calls, or contains one."""
        value = self.values.force(value)
        if isinstance(value, Sequence) and issubclass(value.kind, (list, tuple)):
            return any(map(self.varies, value.items))
        return isinstance(value, Number) and not self.numbers.unknown(value)

    def numbers_in(self, value) -> bool:
        """True if a value is a number that is unknown now, or a list that contains one."""
        value = self.values.force(value)
        if isinstance(value, Sequence) and issubclass(value.kind, (list, tuple)):
            return any(map(self.numbers_in, value.items)) or any(
                isinstance(v, TensorValue) and not v.fake.dim() for v in map(self.values.force, value.items))
        return isinstance(value, Number)

    def passed_on(self, value):
        """Return the Python value that framework code gets, with varying floats as Reals."""
        value = self.values.force(value)
        if isinstance(value, Number) and value.text is not None and top() is self.machine.recorder:
            return Real(self.machine, value)
        if isinstance(value, Sequence) and value.kind in (list, tuple, Size):
            return value.kind([self.passed_on(self.containers.item(value, k)) for k in range(len(value.items))])
        return self.values.concrete(value)

    def fixed(self, value):
        """Return the Python value that framework code gets, with run-time scalars fixed to their current values."""
        value = self.values.force(value)
        if isinstance(value, Sequence) and value.kind in (list, tuple, Size):
            return value.kind([self.fixed(self.containers.item(value, k)) for k in range(len(value.items))])
        return self.values.known(value) if isinstance(value, Number) and not self.numbers.unknown(
            value) else self.values.concrete(value)

    def with_numbers(self, operator, arguments, keywords):
        """Return the arguments with varying floats as graph inputs, if the operator accepts them at run time."""
        names = list(operator.signature.parameters)

        def entered(value, place):
            value = self.values.force(value)
            varies = isinstance(value, Number) and value.text is not None and declared_scalars(operator) >> place & 1
            return self.arithmetic.run_time_number(value) if varies else value

        return [entered(v, k) for k, v in enumerate(arguments)], {n: entered(v, names.index(n)) if n in names else v
                                                                  for n, v in keywords.items()}

    @CALLED.by(polyfills.tensor_copied)
    def tensor_copied(self, tensor):
        """``copy.deepcopy`` of a tensor: another one with the same elements."""
        tensor = self.values.force(tensor)
        if tensor.fake._rush_needs_grad or self.classes.class_of(tensor) is not Tensor:
            raise Break("RB001", "a copy of a parameter, or of a tensor with a history")
        return self.run_framework(OPS["clone"], [tensor], {})

    @CALLED.by(ModuleList.__getitem__, Sequential.__getitem__, told=True)
    def part_of_row(self, read, owner, index):
        """Return an item of a sequence of modules; a slice (``layers[:n]``) is such a sequence too, and the same object
        at every call, since the modules are."""
        owner, index = self.values.force(owner), self.values.force(index)
        if not (isinstance(owner, Object) and type(owner.value).__getitem__ is read and isinstance(index, Constant)
                and isinstance(index.value, slice) and type(owner.value) in (ModuleList, Sequential)):
            return self.calls.call_python_function(self.values.from_python(read), [owner, index], {})
        modules = self.attributes.attribute_now(owner, "_modules")
        for name in modules.items:
            self.mappings.lookup(modules, name)  # the current content is assumed
        part = owner.value[index.value]
        # modules are referenced weakly: this keeps the slice alive with the segment
        self.guarding.constant_name([part])
        return self.values.from_python(part)

    @CALLED.by(global_hooks)
    def hooks_of_all_modules(self, kind):
        """Return the hooks of a kind that apply to all modules, guarded like others."""
        kind = self.values.known(kind)
        place = self.guarding.constant_source(vars(sys.modules[HOME]))
        return self.outside.wrap(global_hooks(kind), place.item(repr(NAMES.get(kind) or OPTIONS[kind])))

    @CALLED.by(Parameter)
    def new_parameter(self, data=None, requires_grad=Constant(True)):
        """``Parameter(data)``: a leaf over a tensor made here; memory from outside would be shared."""
        data = self.run_framework(OPS["empty"], [Constant(0)], {}) if data is None else self.values.force(data)
        if not isinstance(data, TensorValue) or self.machine.recorder.root(data.fake.node).op is None:
            raise Break("RB001", "a Parameter over memory from outside: make it there, once")
        return self.values.from_python(self.machine.recorder.parameter(data.fake, Parameter,
                                                                       self.arithmetic.truth(requires_grad)))

    @CALLED.by(changed)
    def module_changed(self, module):
        """Let a module's own code set its attributes: nothing is assumed yet of a module that is made here."""
        if not isinstance(self.values.force(module), Instance):
            raise Break("RB004", "changing the parameters or modules of a module from outside")
        return Constant(None)

    @CALLED.by(Module.__getattr__)
    def module_attribute(self, owner, name):
        return self.part_of_network(self.values.force(owner), self.values.known(name))

    @CALLED.by(is_tensor_like)
    def tensor_like(self, value):
        return Constant(isinstance(self.values.force(value), TensorValue)
                        or hasattr(self.classes.class_of(value), "__torch_function__"))

    def part_of_network(self, owner, name):
        """Return a parameter, buffer or module of a module, as ``Module.__getattr__`` finds it."""
        if not isinstance(owner, Object):
            return self.calls.inline(self.calls.as_function(self.values.from_python(Module.__getattr__)),
                                     [owner, Constant(name)], {})
        place = owner.value.__dict__
        for where in PLACES:
            changed = self.outside.wrapped.get(id(place.get(where)))
            if isinstance(changed, Mapping) and changed.changed:
                if name in changed.items:
                    return self.mappings.lookup(changed, name)
                continue
            if name in place.get(where, ()):
                found = place[where][name]
                return self.outside.wrap(found, owner.source.attribute(where, True).item(repr(name), is_told(found)))
            self.guarding.guard(f"{name!r} not in {{0}}", owner.source.attribute(where, True))
        raise self.classes.missing(owner, name)


PLACES = ("_parameters", "_buffers", "_modules")
