"""Public functions and classes take the arguments that PyTorch's take: each by its name, in the same order, and none
more that has to be given."""
import importlib
import inspect
import io
import warnings

import pytest
import torch as judge
import torch.onnx

import rushlight as torch
from rushlight._src.compat import table
from tests.compat.pytorch import Walk, public_names

KIND = inspect.Parameter
# packages of compilers' internals, of launchers, and of PyTorch's own tests
INSIDES = ("torch.testing", "torch.fx.experimental", "torch.fx.operator_schemas", "torch.jit", "torch.ao.ns",
           "torch.distributed", "torch.export.exported_program", "torch.backends.xeon",
           "torch.utils.benchmark.examples",
           "torch.utils.viz", "torch.onnx", "torch.package", "torch.ao.quantization.fx")
# path -> why ours differs
DIFFERENT = {
    "torch.SymInt": "symbols are made while programs are captured", "torch.SymFloat": "as torch.SymInt",
    "torch.SymBool": "as torch.SymInt",
    "torch.compile": "name, recompile_limit, isolate_recompiles and shapes_spec are not built",
    "torch.compiler.compile": "as torch.compile",
    "torch.compiler.set_stance": "force_backend is not built",
    "torch.dtype": "there is a fixed number of them", "torch.layout": "as torch.dtype",
    "torch.memory_format": "as torch.dtype", "torch.qscheme": "as torch.dtype",
    "torch.Size": "takes the same, by another name that is positional",
    "torch.sym_sum": "PyTorch's takes a list, its signature says more",
    "torch.autograd.profiler.EventList": "made by profilers",
    "torch.autograd.profiler.FunctionEvent": "made by profilers",
    "torch.cuda.CudaError": "made where a call of a driver fails",
    "torch.cuda.graph": "annotations and liveness of graphs of calls are not built",
    "torch.export.ExportedProgram": "made by torch.export",
    "torch.fx.graph.PythonCode": "made by graphs",
    "torch.fx.immutable_collections.register_pytree_node": "the node's own, by another path",
    "torch.fx.passes.graph_drawer.FxGraphDrawer": "draws nodes and what they hold, without choices",
    "torch.fx.passes.utils.matcher_utils.InternalMatch": "made by matchers",
    "torch.mtia.is_bf16_supported": "there is no such device, however it is asked",
    "torch.compiler.config.Config": "settings of modules are files here",
    "torch.fx.passes.fake_tensor_prop.FakeTensor": "made by FakeTensorMode",
    "torch.library.OpOverload": "made by torch.ops",
    "torch.nn.attention.flex_attention.BlockMask": "as create_block_mask",
    "torch.library.CustomOpDef": "made by custom_op", "torch.library.infer_schema": "tags are not written into schemas",
    "torch.nn.attention.flex_attention.create_block_mask": "gradients of queries have one order here",
    "torch.profiler.profile": "nothing is left to be done after a profile",
}


def parameters(value):
    try:
        return list(inspect.signature(value).parameters.values())
    except (ValueError, TypeError):
        return None


def differences(theirs, ours) -> list:
    """What a caller of theirs could write that ours does not take."""
    wanted, mine = parameters(theirs), parameters(ours)
    if wanted is None or mine is None:
        return []
    named = {p.name: p for p in mine}
    many, keywords = (any(p.kind is kind for p in mine) for kind in (KIND.VAR_POSITIONAL, KIND.VAR_KEYWORD))
    found = []
    for p in wanted:
        own = named.get(p.name)
        if p.kind in (KIND.VAR_POSITIONAL, KIND.VAR_KEYWORD, KIND.POSITIONAL_ONLY):
            continue
        if own is None and not keywords:
            found.append(f"{p.name} is missing")
        elif own is not None and p.default is not p.empty and own.default is own.empty and own.kind in (
                KIND.POSITIONAL_OR_KEYWORD, KIND.KEYWORD_ONLY):
            found.append(f"{p.name} has no default")
    orders = [[p.name for p in those if p.kind in (KIND.POSITIONAL_ONLY, KIND.POSITIONAL_OR_KEYWORD)]
              for those in (wanted, mine)]
    common = [[n for n in order if n in orders[0] and n in orders[1]] for order in orders]
    if not many and common[0] != common[1]:
        found.append(f"{common[1]} are in another order")
    names = {p.name for p in wanted}
    if not any(p.kind in (KIND.VAR_POSITIONAL, KIND.VAR_KEYWORD) for p in wanted):
        found += [f"{p.name} has to be given" for p in mine if p.default is p.empty and p.name not in names
                  and p.kind in (KIND.POSITIONAL_OR_KEYWORD, KIND.KEYWORD_ONLY)]
    return found


def test_arguments():
    """Of what both have.  Operators take other names than their signature says, and are held to PyTorch elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong, seen, count = {}, set(), 0
        for path, module in sorted(Walk(False).modules.items()):
            if path.startswith(INSIDES):
                continue
            mine = importlib.import_module(table.OURS + path.removeprefix(table.THEIRS))
            for name in public_names(path, module):
                theirs = getattr(module, name)
                if (name.startswith("_") or id(theirs) in seen or not callable(theirs)
                        or table.entries(path).get(name, ("from",))[0] != "from"):
                    continue
                seen.add(id(theirs))
                try:
                    ours = getattr(mine, name)
                except AttributeError:  # how a module of settings is made
                    assert type(module).__name__ == "ConfigModuleInstance"
                    continue
                if type(ours).__name__ == "Op" or isinstance(theirs, type) and issubclass(theirs, BaseException):
                    continue
                count += 1
                if found := differences(theirs, ours):
                    wrong[f"{path}.{name}"] = found
    left = {path: found for path, found in wrong.items() if path not in DIFFERENT
            and not path.startswith(("torch.ao.nn", "torch.ao.quantization"))}
    assert count > 1500 and not left, "\n".join(f"{path}: {found}" for path, found in left.items())
    assert len(DIFFERENT) < 40


class Halves:
    """A function of autocast by its older names, in either framework."""

    @staticmethod
    def of(t, **options):
        class Doubled(t.autograd.Function):
            @staticmethod
            @(t.cuda.amp.custom_fwd(**options) if options else t.cuda.amp.custom_fwd)
            def forward(ctx, x):
                return x * 2

            @staticmethod
            @t.cuda.amp.custom_bwd
            def backward(ctx, g):
                return g * 2

        x = t.ones(2, requires_grad=True)
        Doubled.apply(x).sum().backward()
        return x.grad.tolist()


def with_grad_variables(t):
    x = t.ones(2, requires_grad=True)
    t.autograd.backward(x.sum(), grad_variables=t.tensor(2.0))
    return x.grad.tolist()


def entries(t, **options):
    import zipfile
    file = io.BytesIO()
    t.save([1], file, **options)
    return sorted(name.partition("/")[2] for name in zipfile.ZipFile(file).namelist() if "byteorder" in name)


def registered_twice(t):
    name = f"sig_{t.__name__}"
    library = t.library.Library(name, "DEF")  # noqa: F841 - its operators live as long
    library.define("f(Tensor x) -> Tensor")
    t.library.register_fake(f"{name}::f", lambda x: x.new_empty(3))
    t.library.register_fake(f"{name}::f", lambda x: x.new_empty(4))
    try:
        t.library.register_fake(f"{name}::f", lambda x: x, allow_override=False)
    except RuntimeError as error:
        told = "already has a fake impl registered" in str(error)
        return told, getattr(t.ops, name).f(t.ones(1, device="meta")).shape


def taken(t):
    import numpy as np
    x = t.ones(3)
    found = []
    for source in (x, np.ones(3, dtype="f")):
        for options in ({"device": "cpu"}, {"copy": True}, {"copy": False}, {"device": "meta"}):
            try:
                y = t.from_dlpack(source, **options)
                found.append((y.tolist(), y.data_ptr() == x.data_ptr()))
            except Exception as error:  # noqa: BLE001 - compared
                found.append(type(error).__name__)
    return found


def policies(t):
    seen = []
    checkpoint = importlib.import_module(f"{t.__name__}.utils.checkpoint")

    def policy(ctx, func, *args, **kwargs):
        if str(func).startswith("aten.sin"):
            seen.append((ctx.is_recompute, ctx.op_output is None))
        return checkpoint.CheckpointPolicy.PREFER_RECOMPUTE

    x = t.ones(2, requires_grad=True)
    checkpoint.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False, context_fn=lambda:
                          checkpoint.create_selective_checkpoint_contexts(policy)).sum().backward()
    return seen, [round(v, 5) for v in x.grad.tolist()]


def split(t):
    class Model(t.nn.Module):
        def forward(self, x, y):
            return ((x + 1) * y).sin() - y

    traced = importlib.import_module(f"{t.__name__}.fx").symbolic_trace(Model())
    made = importlib.import_module(f"{t.__name__}.fx.passes.split_module").split_module(
        traced, traced, lambda n: 0 if n.name in ("add", "mul") else 1, keep_original_input_name=False,
        partition_affix="p", tuple_return=True)
    return made.graph, made.submod_p_0.graph, made.submod_p_1.graph, made(t.ones(2), t.ones(2)).tolist()


CALLS = [
    lambda t: "\n".join(map(str, split(t))),
    lambda t: Halves.of(t), lambda t: Halves.of(t, cast_inputs=t.float32), with_grad_variables, registered_twice, taken,
    policies,
    lambda t: (entries(t), entries(t, _disable_byteorder_record=True)),
    lambda t: t.enable_grad(orig_func=lambda: t.is_grad_enabled())(),
    lambda t: t.ones(6).resize_as(tensor=t.ones(3, 2)).shape,
    lambda t: t.nn.grad.conv1d_input(input_size=(1, 1, 3), weight=t.ones(1, 1, 2),
                                     grad_output=t.ones(1, 1, 2)).tolist(),
    lambda t: t.nn.grad.conv1d_weight(input=t.ones(1, 1, 3), weight_size=(1, 1, 2),
                                      grad_output=t.ones(1, 1, 2)).tolist(),
    lambda t: t.cuda.device_of(t.ones(1)).__enter__() is None and False,
    lambda t: importlib.import_module(f"{t.__name__}.fx.node").map_arg(a=(1, [2]), fn=str),
    lambda t: importlib.import_module(f"{t.__name__}.autograd.graph").increment_version(tensor=t.ones(1)),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_calls(call):
    assert str(call(torch)) == str(call(judge))


def test_block_masks_may_keep_whole_blocks_among_partial_ones():
    from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
    query = torch.randn(1, 1, 256, 8)
    masks = [create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256, separate_full_blocks=separate)
             for separate in (True, False)]
    assert masks[0].full_kv_num_blocks is not None and masks[1].full_kv_num_blocks is None
    torch.testing.assert_close(*(flex_attention(query, query, query, block_mask=m) for m in masks))
