"""Quantization of traced models: ``prepare_fx`` inserts observers, ``convert_fx`` quantizes the observed values.

A value is observed if a quantized layer makes or reads it.  Calls that only move elements share the observer of their
input.
"""
from __future__ import annotations

import copy

from ..._src.core.later import facade, later
from ..._src.core.quantized import quint8
from ...fx import GraphModule
from ...fx._symbolic_trace import Tracer
from ..nn.intrinsic.modules import fused as floats
from ..nn.quantized.modules.utils import layer_of
from .fx.functional import convert_linear, drop_reads, is_linear, operands, pack_weight
from .fx.fuse import fuse, put
from .fx.kinds import (BINARY, FIXED, FUNCTION, OWN_SCALE, SCALAR, SHARED, WEIGHTED, is_relu, kind_of, subject,
                       table)
from .observer import PlaceholderObserver, ReuseInputObserver, _is_activation_post_process
from .qconfig_mapping import QConfigMapping
from .backend_config import get_native_backend_config
from .quantization_mappings import LAYERS, QAT, STATIC, TABLES, get_default_dynamic_quant_module_mappings

__getattr__ = later(__name__)
POST, DYNAMIC_LAYER = "activation_post_process_", "dynamic"


def learner(module, qconfig):
    """A float layer as that which learns with rounded weights."""
    module.qconfig = qconfig
    return QAT[type(module)].from_float(module)


class QuantizationTracer(Tracer):
    """A Tracer that leaves modules of these names and classes alone."""

    def __init__(self, skipped_module_names=(), skipped_module_classes=()):
        super().__init__()
        self.skipped_module_names, self.skipped_module_classes = skipped_module_names, skipped_module_classes

    def is_leaf_module(self, m, module_qualified_name):
        return super().is_leaf_module(
            m, module_qualified_name) or module_qualified_name in self.skipped_module_names or type(
                m) in self.skipped_module_classes


def traced(model, skipped_names=(), skipped_classes=()) -> GraphModule:
    """A copy of a model as a graph, in evaluation mode as far as the model is; modules that are skipped stay calls."""
    if isinstance(model, GraphModule):
        return copy.deepcopy(model)
    tracer, model = QuantizationTracer(skipped_names, tuple(skipped_classes)), copy.deepcopy(model)
    made = GraphModule(model, tracer.trace(model), type(model).__name__)
    return made.train(model.training)


def refuse(what, given, read=()):
    """NotImplementedError where a config says anything (but under the names that are ``read``), which would have no
    effect; ``given``: None, a config, or its older form as a dict."""
    if isinstance(given, dict):
        said = [name for name, value in given.items() if value]
    else:
        said = [name for name, value in vars(given).items() if value and name not in read] if given is not None else []
    if said:
        raise NotImplementedError(f"{what}: {', '.join(said)} is not built: the QConfigMapping places observers, "
                                  "for all operators that have quantized kernels")


def refuse_backend(given):
    """NotImplementedError for another BackendConfig than the one that there is."""
    if given is not None and (isinstance(given, dict) or vars(given) != vars(get_native_backend_config())):
        raise NotImplementedError("backend_config: only get_native_backend_config() is built; the set of "
                                  "quantized operators does not depend on it")


def keep_attributes(made, model, config):
    """Gives a graph the attributes of a model that a config names."""
    for name in getattr(config, "preserved_attributes", ()):
        if hasattr(model, name):
            setattr(made, name, getattr(model, name))
    return made


def fuse_fx(model, fuse_custom_config=None, backend_config=None) -> GraphModule:
    """Fold batch norms into the preceding weights, and pair relus with their layers.  RuntimeError in training mode."""
    if model.training:
        raise RuntimeError("fuse_fx only works on models in eval mode: call eval() before")
    refuse("fuse_custom_config", fuse_custom_config, ("preserved_attributes",))
    refuse_backend(backend_config)
    return keep_attributes(fuse(traced(model)), model, fuse_custom_config)


class Preparation:
    """Puts observers into a graph."""

    def __init__(self, model: GraphModule, mapping: QConfigMapping, train=False):
        self.train, self.model, self.graph, self.mapping = train, model, model.graph, mapping
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.observed, self.count, self.kinds, self.qconfigs, self.dynamic = {}, 0, {}, {}, {}
        self.left_alone = set()  # names of values whose nodes have no QConfig

    def qconfig(self, node):
        """Return the QConfig of a call, by the path of the module or of its parent."""
        path = node.target if node.op == "call_module" else ""
        kind = subject(node, self.modules)
        first = self.modules[path][0] if isinstance(self.modules.get(path), floats._FusedModule) else None
        return self.mapping.find(path, type(first) if first is not None else kind)

    def run(self) -> GraphModule:
        nodes = list(self.graph.nodes)
        for node in nodes:
            kind, qconfig = kind_of(node, self.modules), self.qconfig(node) if node.op.startswith("call") else None
            if is_linear(node) and not self.train:
                kind = FUNCTION
            if qconfig is None:
                self.left_alone.add(node.name)
            if qconfig is not None and self.needs_no_data(node, qconfig):
                self.dynamic[node.name] = DYNAMIC_LAYER, qconfig
            elif kind and qconfig is not None and not self.is_dynamic(qconfig):
                self.kinds[node], self.qconfigs[node] = kind, qconfig
        for node in nodes:
            after = next(iter(node.users)) if len(node.users) == 1 else None
            if self.takes_relu(node) and after is not None and is_relu(after, self.modules) and after in self.kinds:
                self.kinds[after] = "relu of"  # the sum alone is not observed
        for node in nodes:
            if node in self.kinds:
                self.observe_call(node)
        if self.train:
            for node in nodes:
                if self.kinds.get(node) == WEIGHTED:
                    put(self.model, node.target, learner(self.modules[node.target], self.qconfigs[node]))
        self.graph.lint()
        made = GraphModule(self.model, self.graph)  # which has submodules in the order of calls
        made.train(self.train)
        made.meta["quantization"] = {node.name: (self.kinds[node], self.qconfigs[node])
                                     for node in self.kinds} | self.dynamic
        made.meta["left_alone"] = self.left_alone
        return made

    def takes_relu(self, node) -> bool:
        """True if a call has a form with relu."""
        kind = self.kinds.get(node)
        return kind == FUNCTION or kind == BINARY and table().binary[subject(node, self.modules)] != "matmul"

    def needs_no_data(self, node, qconfig) -> bool:
        """Whether a call is of a layer whose quantized form takes floats, and its QConfig says nothing of these: it
        chooses scales as it runs, or weights alone are quantized."""
        if is_linear(node):
            return self.is_dynamic(qconfig)
        kind = type(self.modules[node.target]) if node.op == "call_module" else None
        if kind in TABLES:
            return isinstance(qconfig.activation(), PlaceholderObserver)
        return kind in get_default_dynamic_quant_module_mappings() and self.is_dynamic(qconfig)

    def is_dynamic(self, qconfig) -> bool:
        return getattr(qconfig.activation(), "is_dynamic", False)

    def observe_call(self, node):
        kind = self.kinds[node]
        if kind == "relu of":
            self.observe(node, self.qconfigs[node].activation())
            return
        inputs = [a for a in self.tensors(node)]
        for used in inputs:
            if self.origin(used) not in self.observed:
                self.observe(used, self.given(node).activation())
        first = self.observed[self.origin(inputs[0])] if inputs else None
        self.reread(node)
        if any(self.kinds.get(user) == "relu of" for user in node.users):
            return
        if kind in (SHARED, SCALAR) or isinstance(self.qconfigs[node].activation(), ReuseInputObserver):
            self.observe(node, self.modules[first.target])
        else:
            self.observe(node, self.qconfigs[node].activation())

    def given(self, node):
        """The QConfig for the inputs of a call: what has a range of its own does not say how its input is observed."""
        return self.qconfigs[node] if self.kinds[node] != FIXED else type(self.qconfigs[node])(
            self.mapping.global_qconfig.activation, None)

    def tensors(self, node) -> list:
        """The values that a call quantizes: its first argument, both of a pair, all of what is joined."""
        if self.kinds[node] == BINARY:
            return list(dict.fromkeys(node.args[:2]))
        first = node.args[0] if node.args else next(iter(node.kwargs.values()))
        return list(dict.fromkeys(first)) if isinstance(first, (list, tuple)) else [first]

    def origin(self, node):
        """The value that an observer sees."""
        return node.args[0] if node in self.observed.values() else node

    def observe(self, node, observer):
        """Puts an observer behind a value."""
        name = f"{POST}{self.count}"
        self.count += 1
        self.model.add_module(name, observer)
        self.modules[name] = observer
        with self.graph.inserting_after(node):
            made = self.graph.call_module(name, (node,))
        self.observed[node] = made
        for user in list(node.users):
            if user is not made and (user in self.kinds or self.whole(node)):
                user.replace_input_with(node, made)

    def whole(self, node) -> bool:
        """True if all users of a value read the observed value, and its call computes with quantized values."""
        return node in self.kinds

    def reread(self, node):
        """Lets a call read what is observed."""
        for used in self.tensors(node):
            if used in self.observed:
                node.replace_input_with(used, self.observed[used])


def mapping_of(given) -> QConfigMapping:
    """A mapping, or that which its older form as a dict means."""
    return given if isinstance(given, QConfigMapping) else QConfigMapping.from_dict(given)


def prepare_fx(model, qconfig_mapping, example_inputs, prepare_custom_config=None, _equalization_config=None,
               backend_config=None) -> GraphModule:
    """A copy of a model in evaluation mode, with observers: give it data like those that it is for, then call
    ``convert_fx``.

    ``qconfig_mapping``: a QConfigMapping, or its older form as a dict.  ``prepare_custom_config``: attributes that
      stay, and modules that are not changed.  RuntimeError in training mode, NotImplementedError for a config with
      other options.

    >>> import rushlight as torch
    >>> from rushlight.ao.quantization import get_default_qconfig_mapping
    >>> from rushlight.ao.quantization.quantize_fx import convert_fx, prepare_fx
    >>> x = torch.linspace(-1, 1, 8).reshape(2, 4)
    >>> prepared = prepare_fx(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval(), get_default_qconfig_mapping("x86"), (x,))
    >>> _ = prepared(x)
    >>> type(convert_fx(prepared).get_submodule("0")).__name__
    'LinearReLU'
    """
    if model.training:
        raise RuntimeError(
            "prepare_fx wants a model in evaluation mode: call eval() before, or prepare_qat_fx to train it")
    if _equalization_config is not None:
        raise NotImplementedError("_equalization_config: equalization is not built")
    return prepared(model, qconfig_mapping, prepare_custom_config, backend_config, train=False)


# of a PrepareCustomConfig
READ = ("preserved_attributes", "non_traceable_module_names", "non_traceable_module_classes")


def prepared(model, qconfig_mapping, config, backend_config, train) -> GraphModule:
    """A model with observers.  NotImplementedError for a config of what is not built."""
    refuse("prepare_custom_config", config, READ)
    refuse_backend(backend_config)
    graph = traced(model, getattr(config, "non_traceable_module_names", ()),
                   getattr(config, "non_traceable_module_classes", ()))
    made = Preparation(fuse(graph, train=train), mapping_of(qconfig_mapping), train=train).run()
    return keep_attributes(made, model, config)


def prepare_qat_fx(model, qconfig_mapping, example_inputs, prepare_custom_config=None,
                   backend_config=None) -> GraphModule:
    """A copy of a model in training mode that rounds weights and activations as it will when it is converted: train it,
    then call ``eval()`` and ``convert_fx``.

    Parameters are copies of the model's.  AssertionError in evaluation mode.

    >>> import rushlight as torch
    >>> from rushlight.ao.quantization import get_default_qat_qconfig_mapping
    >>> from rushlight.ao.quantization.quantize_fx import prepare_qat_fx
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    >>> prepared = prepare_qat_fx(model, get_default_qat_qconfig_mapping("x86"), (torch.ones(2, 1, 4, 4),))
    >>> type(prepared.get_submodule("0")).__name__
    'ConvBn2d'
    """
    if not model.training:
        raise AssertionError("prepare_qat_fx only works for models in train mode: call train() before")
    return prepared(model, qconfig_mapping, prepare_custom_config, backend_config, train=True)


def scope_of(node) -> str:
    """The path of the innermost module in whose call a node was recorded."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    return stack[-1][0] if stack else node.target if node.op == "call_module" else ""


class Conversion:
    """Converts a prepared graph to one that computes with quantized values."""

    def __init__(self, model: GraphModule):
        self.model, self.graph = model, model.graph
        self.modules, self.about = dict(model.named_modules(remove_duplicate=False)), model.meta["quantization"]
        # quantized values, and float values; the scale and zero point of an observer
        self.whole, self.real, self.chosen = {}, {}, {}
        self.buffers, self.names = {}, {}  # name -> scale or zero point; observer's node -> names of its two

    def run(self) -> GraphModule:
        for node in list(self.graph.nodes):
            if node._erased:  # the relu of a functional layer
                continue
            if node.op == "call_module" and _is_activation_post_process(self.modules[node.target]):
                self.observer(node)
            elif self.about.get(node.name, ("",))[0] == DYNAMIC_LAYER:
                self.dynamic(node, self.about[node.name][1])
            elif node.name in self.about:
                self.call(node, *self.about[node.name])
            elif node.op != "placeholder":
                self.take_floats(node)
        for node in reversed(list(self.graph.nodes)):
            if node.op == "call_module" and _is_activation_post_process(
                    self.modules[
                        node.target]) or node.op == "call_method" and node.target == "dequantize" and not node.users:
                self.graph.erase_node(node)
        for node in self.graph.find_nodes(op="get_attr"):
            if node.target in self.buffers:
                self.model.register_buffer(node.target, self.buffers[node.target])
        self.graph.lint()
        made = GraphModule(self.model, self.graph)
        made.train(self.model.training)
        for name in ("quantization", "left_alone"):
            made.meta.pop(name)
        return made

    def take_floats(self, node):
        """Lets a call read floats."""
        for used in node.all_input_nodes:
            if used in self.whole or used in self.real:
                node.replace_input_with(used, self.as_floats(used))

    def dynamic(self, node, qconfig):
        """A layer whose quantized form takes floats, in its place."""
        self.take_floats(node)
        if node.op == "call_function":
            convert_linear(self.model, self.graph, node, qconfig, self.modules)
            return
        module = self.modules[node.target]
        module.qconfig = qconfig
        forms = get_default_dynamic_quant_module_mappings()
        if type(module) in forms:  # a module that is called twice is converted once
            made = self.modules[node.target] = forms[type(module)].from_float(module)
            put(self.model, node.target, made)

    def parameters(self, observer):
        """(scale, zero point) that an observer chose."""
        found = self.chosen.get(observer)
        if found is None:
            scale, zero_point = observer.calculate_qparams()
            found = self.chosen[observer] = float(scale), int(zero_point)
        return found

    def observer(self, node):
        """Replace an observer by its input: quantized if its call returns quantized values, or at the first quantized
        use."""
        source = node.args[0]
        if node not in self.names:
            self.name_parameters(node)
        self.whole[node] = self.whole.get(source)
        self.real[node] = None if source in self.whole else source

    def as_floats(self, node):
        """A value as floats."""
        if self.real.get(node) is None:
            whole = self.whole.get(node) or node
            with self.graph.inserting_after(whole):
                made = self.graph.call_method("dequantize", (whole,))
            self.real.update((n, made) for n, w in self.whole.items() if w is whole)
            self.real[node] = made
        return self.real[node]

    def as_whole(self, node):
        """Return an observed value, quantized."""
        if self.whole.get(node) is None:
            made = self.call_after(node.args[0], facade().quantize_per_tensor, (node.args[0],), node, (quint8,))
            self.whole[node] = made
        return self.whole[node]

    def observer_of(self, node):
        """The node that observes a call's result."""
        return next(user for user in node.users if user.op == "call_module" and user.target in self.modules
                    and _is_activation_post_process(self.modules[user.target]))

    def output(self, node):
        """(scale, zero point) of a call's result."""
        return self.parameters(self.modules[self.observer_of(node).target])

    def name_parameters(self, node):
        """Name the scale and the zero point of an observer, which become buffers if a call reads them: by the module
        that made the value, or, for values that are quantized only for a call, by that of the call."""
        source, prefix = node.args[0], ""
        if source.name in self.model.meta["left_alone"]:
            users = list(node.users)
            source, prefix = next((user for user in users if is_linear(user)), users[0] if users else None), "_input"
        path = scope_of(source) if source is not None else ""
        stems = [f"{path.replace('.', '_')}{prefix}_{name}_" for name in ("scale", "zero_point")]
        names = []
        for stem, value in zip(stems, self.parameters(self.modules[node.target])):
            number = 0
            while f"{stem}{number}" in self.buffers or hasattr(self.model, f"{stem}{number}"):
                number += 1
            names.append(f"{stem}{number}")
            made = self.buffers[names[-1]] = facade().tensor(value)
            made._rush_is_setting = True
        self.names[node] = names

    def call_after(self, place, function, args, observer, rest=()):
        """A call behind a node, with the scale and zero point of an observer's node among its arguments."""
        with self.graph.inserting_after(place):
            scale = self.graph.get_attr(self.names[observer][0])
        with self.graph.inserting_after(scale):
            zero_point = self.graph.get_attr(self.names[observer][1])
        with self.graph.inserting_after(zero_point):
            return self.graph.call_function(function, (*args, scale, zero_point, *rest))

    def call(self, node, kind, qconfig):
        operands = [a for a in node.all_input_nodes if a in self.whole or a in self.real]
        if kind == "relu of":
            source = node.args[0]
            self.pair(source, node)
            return
        if kind in (BINARY, FUNCTION) and any(self.about.get(user.name, ("",))[0] == "relu of" for user in node.users):
            return
        if kind in (BINARY, FUNCTION):
            self.pair(node, node)
            return
        for used in operands:
            node.replace_input_with(used, self.as_whole(used))
        if kind == WEIGHTED:
            self.layer(node, qconfig)
        elif kind == SCALAR:
            self.replace(node, getattr(facade().ops.quantized, table().binary[subject(node, self.modules)]),
                         node.args[:2])
            return
        elif kind == OWN_SCALE and node.op == "call_module":
            module = self.modules[node.target]
            module.activation_post_process = self.modules[self.observer_of(node).target]
            put(self.model, node.target, STATIC[type(module)].from_float(module))
        elif kind not in (SHARED, FIXED, OWN_SCALE):
            raise AssertionError(f"{node.name} is of no known kind: {kind}")
        self.whole[node] = node

    def layer(self, node, qconfig):
        """A layer with a weight as its quantized form."""
        module = self.modules[node.target]
        module.qconfig = qconfig
        made = LAYERS[type(module)].of(*layer_of(module), *self.output(node))
        put(self.model, node.target, made)

    def pair(self, node, last):
        """A sum or a product of two values, or a linear layer as a function, and the relu that follows, if it does."""
        if is_linear(node):
            self.linear(node, last)
            return
        torch = facade()
        name = table().binary[subject(node, self.modules)] + ("_relu" if last is not node else "")
        args = tuple(self.as_whole(a) for a in node.args[:2])
        observer = self.observer_of(last)
        self.name_parameters(observer)
        self.take_place(last, self.call_after(last, getattr(torch.ops.quantized, name), args, observer))
        if last is not node:
            self.graph.erase_node(node)

    def linear(self, node, last):
        """A linear layer as a function of a weight that the model holds."""
        found, observer = operands(node), self.observer_of(last)
        function = getattr(facade().ops.quantized, "linear" if last is node else "linear_relu")
        with self.graph.inserting_before(node):
            packed = self.graph.get_attr(pack_weight(self.model, node, self.about[node.name][1].weight()))
        self.name_parameters(observer)
        self.take_place(last, self.call_after(last, function, (self.as_whole(found["input"]), packed), observer))
        if last is not node:
            self.graph.erase_node(node)
        drop_reads(self.model, self.graph, found)

    def replace(self, node, function, args):
        with self.graph.inserting_after(node):
            made = self.graph.call_function(function, args)
        self.take_place(node, made)

    def take_place(self, node, made):
        """Puts a quantized value in the place of a node's."""
        self.whole[made] = made
        node.replace_all_uses_with(made)
        self.graph.erase_node(node)


def convert_fx(graph_module, convert_custom_config=None, _remove_qconfig=True, qconfig_mapping=None,
               backend_config=None, keep_original_weights=False) -> GraphModule:
    """Return a quantized copy of a prepared and calibrated model: layers of ``torch.ao.nn.quantized``,
    ``torch.ops.quantized``.

    AssertionError for a model that ``prepare_fx`` has not made.
    """
    if not isinstance(graph_module, GraphModule) or "quantization" not in graph_module.meta:
        raise AssertionError("incoming model must be produced by prepare_fx")
    refuse("convert_custom_config", convert_custom_config, ("preserved_attributes",))
    refuse_backend(backend_config)
    if qconfig_mapping is not None or keep_original_weights:
        raise NotImplementedError(
            "convert_fx: qconfig_mapping and keep_original_weights are not built: give the mapping "
            "to prepare_fx")
    return keep_attributes(Conversion(copy.deepcopy(graph_module)).run(), graph_module, convert_custom_config)

