"""What programs do with PyTorch's objects besides calling them."""
import copy
import pickle

import numpy as np
import pytest
import torch

import rushlight

LIBRARIES = (torch, rushlight)
F = "nn.functional"


def tagged(t):
    class Tagged(t.nn.Parameter):
        def __new__(cls, data, tag=None, **more):
            made = t.nn.Parameter.__new__(cls, data)
            made.tag = tag
            return made
    return Tagged


def uniform_that_remembers(t):
    """A family whose subclass keeps what it was given beside its parameters, as pyro's does."""
    class Uniform(t.distributions.Uniform):
        def __init__(self, low, high):
            self.low_as_given = low
            super().__init__(low, high)

        def expand(self, batch_shape, _instance=None):
            new = super().expand(batch_shape, self._get_checked_instance(Uniform, _instance))
            new.low_as_given = self.low_as_given
            return new
    return Uniform(t.tensor(0.0), t.tensor([1.0, 2.0]))


def layer_that_is_a_transform(t):
    class Layer(t.distributions.Transform, t.nn.Module):
        domain = codomain = t.distributions.constraints.real

        __hash__ = t.nn.Module.__hash__

        def __init__(self):
            super().__init__(cache_size=1)
            self.inner = t.nn.Linear(2, 2)
    return [name for name, _ in Layer().named_parameters()]


def streams_of_the_processor(t):
    one = t.cpu.Stream()
    with t.cpu.stream(one):
        inside = t.cpu.current_stream() is one
    t.cpu.set_device("cpu"), one.wait_stream(t.cpu.current_stream()), t.cpu.synchronize()
    return [inside, t.cpu.current_stream() is one, t.cpu.is_initialized(), t.cpu.Event().query()]


def class_of_a_graph(t):
    kind = type(t.fx.symbolic_trace(t.nn.Linear(1, 1)))
    return ["GraphModuleImpl" in str(kind), kind.__name__]


def sizes_as_a_tree(t):
    tree = t.utils._pytree
    paths, spec = tree.tree_flatten_with_path(t.Size([3, 4]))
    return [tree.tree_map(lambda size: size + 1, t.ones(2, 3).shape), [tree.keystr(path) for path, _ in paths],
            tree.treespec_dumps(spec)]


i = np.int64
PROGRAMS = {
    "expand of a subclass": lambda t: list(uniform_that_remembers(t).expand((3, 2)).batch_shape),
    "a transform with layers": layer_that_is_a_transform,
    "streams of the processor": streams_of_the_processor,
    "class of a graph": class_of_a_graph,
    "sizes as a tree": sizes_as_a_tree,
    "a parameter with arguments": lambda t: [tagged(t)(t.zeros(2), tag=1).tag, tagged(t)(t.zeros(2), 3, x=1).tag],
    "pad": lambda t: t.nn.functional.pad(t.ones(1, 3, 3), tuple(np.array([1, 2, 1, 2]))),
    "pad, compiled": lambda t: (t.compile if t is rushlight
                                else lambda f: f)(lambda x: t.nn.functional.pad(x, tuple(np.array([1, 2])))
                                                  * np.float64(2))(t.ones(2, 3)),
    "pad, mapped": lambda t: t.func.vmap(lambda x: t.nn.functional.pad(x, (i(1), i(2)),
                                                                       value=np.float64(2)))(t.ones(2, 3)),
    "stride": lambda t: t.nn.functional.conv2d(t.ones(1, 1, 4, 4), t.ones(1, 1, 2, 2), stride=(i(2), 1), padding=i(1)),
    "numbers": lambda t: [t.arange(4.0).clamp(np.float32(1), np.float64(2)),
                          t.add(t.ones(2), t.ones(2), alpha=np.float32(2)), t.ones(2) * np.float64(2),
                          t.ones(2).roll(i(1), i(0))],
    "gradients": lambda t: t.autograd.grad(t.nn.functional.pad(x := t.ones(2, requires_grad=True), (i(1), i(1)),
                                                               value=np.float64(3)).sum() * i(2), x)[0],
    "einsum in a graph": lambda t: [[str(a) for a in n.args]
                                    for n in t.fx.symbolic_trace(lambda a, b: t.einsum("ij,jk->ik", (a, b)))
                                    .graph.nodes if n.op == "call_function"],
    "a large sampler": lambda t: [len([k for k, _ in zip(iter(t.utils.data.RandomSampler(range(100), replacement=True,
                                                                                         num_samples=n)), range(70))])
                                  for n in (10**10, 70, 33, 64)],
    "named dtypes": lambda t: [str(t.qint8), str(t.quint4x2), str(t.bits16), str(t.int4), isinstance(t.qint32, t.dtype),
                               len({t.qint8, t.quint8, t.int7, t.uint1})],
    "a block with a name": lambda t: t.ops.profiler._record_function_exit(t.ops.profiler._record_function_enter(
        "block")),
}


def plain(value):
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value.tolist() if hasattr(
        value, "tolist") else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_pytorch(name):
    theirs, ours = [plain(PROGRAMS[name](t)) for t in LIBRARIES]
    assert ours == theirs


def test_a_compiled_module_stays_compiled_around_another():
    inner = rushlight.nn.Linear(2, 2)
    module = rushlight.compile(rushlight.nn.DataParallel(inner))
    module._orig_mod = inner
    assert module._orig_mod is inner and sorted(module.state_dict()) == ["_orig_mod.bias", "_orig_mod.weight"]
    assert rushlight.equal(module(rushlight.ones(1, 2)), inner(rushlight.ones(1, 2)))


def test_functions_take_attributes():
    relu = rushlight.nn.functional.relu
    relu.__default_init__ = 1
    try:
        assert relu.__default_init__ == 1 and not hasattr(rushlight.tanh, "__default_init__")
        assert copy.deepcopy(relu) is relu and pickle.loads(pickle.dumps(relu)) is relu and relu.__name__ == "relu"
    finally:
        del relu.__default_init__
    with pytest.raises(AttributeError):
        relu.__default_init__


def test_a_storage_takes_another_size():
    x = rushlight.arange(4.0)
    view, array, storage = x[1:], np.from_dlpack(x), x.untyped_storage()
    assert storage.resizable() and storage.resize_(64).nbytes() == 64 == x.untyped_storage().nbytes()
    assert x.tolist() == [0, 1, 2, 3] and view.tolist() == [1, 2, 3] and array.tolist() == [0, 1, 2, 3]
    x.fill_(7)
    assert view.tolist() == [7, 7, 7]  # they share the new memory
    assert storage.resize_(0).nbytes() == 0
    with pytest.raises(RuntimeError, match="not resizable"):
        rushlight.from_numpy(np.ones(3)).untyped_storage().resize_(100)


def test_numbers_of_numpy_make_no_plan_each():
    x, pad = rushlight.ones(2, 3), rushlight.nn.functional.pad
    pad(x, (2, 3))
    before = len(pad.plans)
    pad(x, (i(2), i(3)))
    assert len(pad.plans) <= before + 1


def test_what_quantizes_and_is_not_built_says_so():
    with pytest.raises(NotImplementedError, match="error 1003"):
        rushlight.ao.quantization.quantize_fx.convert_to_reference_fx(rushlight.nn.Linear(2, 2))
    with pytest.raises(NotImplementedError, match="only as a name"):
        rushlight.zeros(2, dtype=rushlight.qint8)
