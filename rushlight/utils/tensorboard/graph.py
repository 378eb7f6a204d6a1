"""A model's graph as TensorBoard reads it: its operators by module, in the order in which one call runs them."""
from __future__ import annotations

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

from ..._src.autograd.mode import no_grad
from ..._src.core.composed import member
from ..._src.core.native import Op, Tensor
from ..._src.core.pytree import tree_leaves
from ...nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ...overrides import TorchFunctionMode


def node(name: str, operator: str, inputs=(), tensor=None, text="") -> NodeDef:
    """One box of the picture; the shape of ``tensor`` is written on its edges."""
    attributes = {"attr": AttrValue(s=text.encode())}
    if tensor is not None:
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=int(n)) for n in tensor.shape])
        attributes["_output_shapes"] = AttrValue(list=AttrValue.ListValue(shape=[shape]))
    return NodeDef(name=name, op=operator, input=list(inputs), attr=attributes)


class Watching(TorchFunctionMode):
    """Traces the functions that a model calls, below the names of the modules that call them."""

    def __init__(self, model):
        super().__init__()
        self.nodes, self.counts, self.scopes = [], {}, []
        # id of a tensor -> (its node's name, the tensor, which stays alive so that the number stays its own)
        self.made: dict = {}
        self.paths = {id(m): path for path, m in model.named_modules()}
        self.model = model
        for path, value in (*model.named_parameters(), *model.named_buffers()):
            owner = self.scope_of(path.rpartition(".")[0])
            self.enter(value, f"{owner}/{path.rpartition('.')[2]}", "prim::GetAttr")

    def scope_of(self, path: str) -> str:
        """"0.attention" -> "Model/Block[0]/Attention[attention]"."""
        module, scope = self.model, type(self.model).__name__
        for part in filter(None, path.split(".")):
            module = getattr(module, part)
            scope += f"/{type(module).__name__}[{part}]"
        return scope

    def enter(self, tensor, name, operator, inputs=()):
        count = self.counts[name] = self.counts.get(name, 0) + 1
        name = name if count == 1 else f"{name}_{count}"
        self.nodes.append(node(name, operator, inputs, tensor))
        self.made[id(tensor)] = name, tensor

    def push(self, module, args):
        self.scopes.append(self.scope_of(self.paths[id(module)]) if id(module) in self.paths else self.scopes[-1])

    def pop(self, module, args, result):
        self.scopes.pop()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.name.rpartition(".")[2] if isinstance(func, Op) else member(func)
        if not name.startswith("__"):
            inputs = [self.made[id(v)][0] for v in tree_leaves((args, kwargs or {})) if isinstance(v, Tensor)
                      and id(v) in self.made]
            for value in tree_leaves(result):
                if isinstance(value, Tensor) and inputs and id(value) not in self.made:
                    self.enter(value, f"{self.scopes[-1] if self.scopes else ''}/{name}".strip("/"), f"aten::{name}",
                               inputs)
        return result


def graph_of(model, inputs) -> GraphDef:
    """Return the graph of one call of the model on these inputs (a tensor, or a tuple of arguments), without gradients.

    RuntimeError where the call gives no tensor that comes from its inputs.
    """
    given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    watching = Watching(model)
    for k, value in enumerate(v for v in tree_leaves(given) if isinstance(v, Tensor)):
        watching.enter(value, f"input/input.{k + 1}", "IO Node")
    hooks = register_module_forward_pre_hook(watching.push), register_module_forward_hook(watching.pop)
    try:
        with no_grad(), watching:
            result = model(*given)
    finally:
        for hook in hooks:
            hook.remove()
    outputs = [v for v in tree_leaves(result) if isinstance(v, Tensor) and id(v) in watching.made]
    if not outputs:
        raise RuntimeError("add_graph: no result of the model is computed from its inputs by tensor operators")
    for k, value in enumerate(outputs):
        watching.nodes.append(node(f"output/output.{k + 1}", "IO Node", [watching.made[id(value)][0]], value))
    return GraphDef(node=watching.nodes, versions=VersionDef(producer=22))


def graph_of_file(path) -> GraphDef:
    """The graph of an ONNX file: its inputs, and its operators by the name of their first result."""
    import onnx

    program = onnx.load(path).graph
    nodes = [NodeDef(name=given.name, op="Variable") for given in program.input]
    for step in program.node:
        settings = ", ".join(onnx.helper.printable_attribute(a) for a in step.attribute)
        nodes.append(NodeDef(name=step.output[0], op=step.op_type, input=step.input,
                             attr={"parameters": AttrValue(s=settings.encode())}))
    return GraphDef(node=nodes, versions=VersionDef(producer=22))
