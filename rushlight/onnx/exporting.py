"""``export``: a module's program in primitives, and each primitive in operators of ONNX."""

from __future__ import annotations

import inspect
import warnings

import numpy as np

from .._src.version import VERSION
from .._src.compiler.complex_lowering import in_pairs
from .._src.compiler.turned import resolved
from .._src.core.dtypes import bfloat16, int16
from .._src.core.expr import Expr
from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten
from ..export import Dim, ExportedProgram
from ..export import export as export_program
from ..export.capturing import Untouched
from ..export.graph_signature import InputKind
from .._src.graph.graph import Store
from . import choices, matrices, quantized  # noqa: F401 - rules
from .complex_numbers import real_form
from .errors import OnnxExporterError
from .program import ONNXProgram
from .rules import RULES
from .writer import Writer, element_type, library

OPSET, LEAST_OPSET = 20, 17
IR_VERSION = 10
IDLE = {
    "verbose": None,
    "report": False,
    "optimize": True,
    "profile": False,
    "dump_exported_program": False,
    "artifacts_dir": ".",
    "do_constant_folding": True,
    "custom_opsets": None,
    "export_modules_as_functions": False,
    "autograd_inlining": True,
    "training": 0,
    "operator_export_type": 0,
}  # options that say how PyTorch exports


def export(
    model,
    args=(),
    f=None,
    *,
    kwargs=None,
    input_names=None,
    output_names=None,
    opset_version=None,
    dynamo=True,
    external_data=True,
    dynamic_shapes=None,
    custom_translation_table=None,
    verify=False,
    export_params=True,
    keep_initializers_as_inputs=False,
    dynamic_axes=None,
    **idle,
) -> ONNXProgram | None:
    """A module, or an exported program, as ONNX; written to the path or the binary file ``f`` if given.

    What is written into is an output more, ``<name>_next``; a buffer that is, is an input, too, whose default value is
    what the buffer holds now.

    ``args``, ``kwargs``: example arguments, as for ``torch.export.export``; ``dynamic_shapes`` as there, or
    ``dynamic_axes``: ``{input name: {dimension: name of its size}}``, which is the only way with ``dynamo=False``;
      None is returned then.  ``verify`` runs the program in onnxruntime and
      compares.
    OnnxExporterError for what ONNX has no operators for, and where the package ``onnx`` is missing (the extra
    ``rushlight[onnx]``).

    >>> import rushlight as torch
    >>> program = torch.onnx.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))  # doctest: +SKIP
    >>> program.model_proto.graph.output[0].name  # doctest: +SKIP
    'output_0'
    """
    for name, value in idle.items():
        if name not in IDLE:
            raise TypeError(f"export() got an unexpected keyword argument {name!r}")
        if value != IDLE[name]:
            warnings.warn(f"torch.onnx.export: {name}={value!r} has no effect here", stacklevel=2)
    if custom_translation_table:
        raise NotImplementedError(
            "custom_translation_table: operators are written as their primitives here, " "which no table replaces"
        )
    is_legacy = not dynamo and not isinstance(model, ExportedProgram)
    if is_legacy and dynamic_shapes:
        raise ValueError("The exporter only supports dynamic shapes through parameter dynamic_axes when dynamo=False.")
    if opset_version is not None and opset_version < LEAST_OPSET:
        raise ValueError(f"opset_version is {opset_version}; {LEAST_OPSET} is the least that is written")
    args = args if isinstance(args, tuple) else (args,)
    program = exported(model, args, kwargs, input_names, dynamic_shapes, dynamic_axes)
    made = Writing(program, input_names, output_names, opset_version or OPSET).write(external_data)
    if verify:
        check(made, program)
    if f is not None:
        made.save(f, include_initializers=export_params, keep_initializers_as_inputs=keep_initializers_as_inputs)
    return None if is_legacy else made


def exported(model, args, kwargs, input_names, dynamic_shapes, dynamic_axes) -> ExportedProgram:
    """The program to write, of what ``export`` is given."""
    if isinstance(model, ExportedProgram):
        return model
    if args and isinstance(args[-1], dict) and kwargs is None and takes_fewer(model, args):
        args, kwargs = args[:-1], args[-1]
    if dynamic_axes and dynamic_shapes is None:
        dynamic_shapes = shapes_of_axes(model, args, kwargs or {}, input_names, dynamic_axes)
    return export_program(model, args, kwargs, dynamic_shapes=dynamic_shapes)


def takes_fewer(model, args) -> bool:
    """Whether the last of these arguments, a dict, stands for keyword arguments, as it once did."""
    try:
        inspect.signature(model.forward).bind(*args)
    except TypeError:
        return True
    return False


def shapes_of_axes(model, args, kwargs, input_names, axes):
    """``dynamic_axes`` as ``dynamic_shapes``: sizes of one name are one."""
    parameters = list(inspect.signature(model.forward).parameters)
    given = dict(zip(input_names or [], parameters))
    dims: dict = {}
    named = {}
    for name, entry in axes.items():
        target = given.get(name, name)
        if target not in parameters:
            continue  # the axes of an output follow
        entry = entry if isinstance(entry, dict) else {k: f"{name}_dim_{k}" for k in entry}
        named[target] = {k: dims.setdefault(label, Dim(label.replace(".", "_"))) for k, label in entry.items()}
    present = parameters[: len(args)] + list(kwargs)
    return {name: named.get(name) for name in present}


class Writing:
    """One export: the program's primitives, in order, through a Writer."""

    def __init__(self, program, input_names, output_names, opset):
        self.program, self.opset = program, opset
        self.input_names, self.output_names = list(input_names or []), list(output_names or [])
        self.writer = Writer(RULES, opset)

    def enter(self, given, graph) -> list:
        """Names the graph's inputs, and returns those of the file: state and constants are its initializers."""
        w, arguments, nodes, names = self.writer, [], iter(graph.inputs), iter(self.input_names)
        for spec, (value, (_, _, varying)) in zip(self.program.graph_signature.input_specs, given):
            if not isinstance(value, Tensor) and None not in varying:
                continue
            node = next(nodes)
            if spec.kind is InputKind.USER_INPUT:
                w.names[node] = next(names, None) or spec.arg.name
                arguments.append(node)
            else:
                stored = real_form(value.detach())
                w.names[node] = w.initializer(spec.target, array_of(stored), stored.dtype)
        return arguments

    def write(self, outside) -> ONNXProgram:
        onnx, w, given = library(), self.writer, self.program.given()
        found = self.program.traced(given, keeps=quantized.kept)
        found = found._replace(graph=in_pairs(resolved(found.graph)))
        arguments = self.enter(given, found.graph)
        for symbol, (node, dim) in found.sizes.items():
            w.sizes[symbol.arg[0]] = w.emit("Reshape", w.names[node], w.constant([1])) if dim is None else w.emit(
                "Shape", w.names[node], start=dim, end=dim + 1)
        for node in found.graph.nodes:
            w.write(node)
        outputs = []
        for k, node in enumerate(o for o in found.graph.outputs if not isinstance(o, Store)):
            name = self.output_names[k] if k < len(self.output_names) else f"output_{k}"
            w.nodes.append(onnx.helper.make_node("Identity", [w.names[node]], [name]))
            outputs.append(described(name, node.meta, found.names))
        written = {}
        for store in (o for o in found.graph.outputs if isinstance(o, Store)):
            name = w.names[store.into]
            written[name] = f"{name}_next"
            w.nodes.append(onnx.helper.make_node("Identity", [w.names[store.node]], [written[name]]))
            outputs.append(described(written[name], store.meta, found.names))
            if store.into not in arguments:
                arguments.append(store.into)  # its initializer is its default value
        inputs = [described(w.names[n], n.meta, found.names) for n in arguments]
        made = onnx.helper.make_graph(w.nodes, "main", inputs, outputs, w.initializers)
        model = onnx.helper.make_model(
            made,
            opset_imports=[onnx.helper.make_opsetid("", self.opset)],
            producer_name="rushlight",
            producer_version=VERSION,
            ir_version=IR_VERSION,
        )
        return ONNXProgram(pruned(model), self.program, outside, written)


def described(name, meta, labels):
    """Return a value's type: its dtype, and its shape with a label for each dynamic size."""
    shape = [labels.get(n) or str(n) if isinstance(n, Expr) else n for n in meta.shape]
    dtype, parts = (meta.dtype.to_real(), [2]) if meta.dtype.is_complex else (meta.dtype, [])
    return library().helper.make_tensor_value_info(name, element_type(dtype), shape + parts)


def array_of(value) -> np.ndarray:
    """A tensor's elements as they are stored: of bfloat16 the bits."""
    value = value.detach().contiguous()
    return (value.view(int16) if value.dtype is bfloat16 else value).numpy()


def pruned(model):
    """The model without what no output needs."""
    graph, wanted, kept = model.graph, {o.name for o in model.graph.output}, []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            wanted.update(names_read(node))
            kept.append(node)
    kept.reverse()
    del graph.node[:]
    graph.node.extend(kept)
    weights = [t for t in graph.initializer if t.name in wanted]
    del graph.initializer[:]
    graph.initializer.extend(weights)
    return model


def names_read(node) -> set:
    """The names that an operator reads, those within its graphs too."""
    inner = {name for attribute in node.attribute for one in attribute.g.node for name in names_read(one)}
    return {*node.input, *inner, *(out.name for attribute in node.attribute for out in attribute.g.output)}


def check(made, program):
    """OnnxExporterError where onnxruntime computes something else than the program from its example inputs."""
    from ..testing import assert_close

    args, kwargs = program.example_inputs
    module, leaves = program.module(), tree_flatten((args, kwargs))[0]
    with Untouched(module, leaves):
        wanted = tree_flatten(module(*args, **kwargs))[0]
    with Untouched(module, leaves):
        results = made(*args, **kwargs)
    made.release()
    for found, value in zip(results, wanted):
        try:
            assert_close(found, real_form(value.detach()), rtol=1e-3, atol=1e-4)
        except AssertionError as error:
            raise OnnxExporterError(f"onnxruntime computes something else: {error}") from error
