"""Every module of torch.nn: constructors, text, state, copies, beside torch."""
import copy
import inspect
import pickle
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's database wants it

from torch.testing._internal.common_modules import module_db  # noqa: E402

import rushlight  # noqa: E402

CLASSES = sorted(n for n, c in vars(torch.nn).items() if isinstance(c, type) and issubclass(c, torch.nn.Module)
                 and hasattr(rushlight.nn, n))
OTHERWISE = {"T_destination", "ipu", "xpu", "mtia", "inplace", "call_super_init",  # types and other devices
             # of lazy modules, which make themselves up at their first call
             "cls_to_become", "has_uninitialized_params", "initialize_parameters",
             "merge_masks", "check_forward_args", "check_hidden_size", "check_input", "get_expected_hidden_size",
             "get_expected_cell_size", "permute_hidden",
             "gather", "scatter", "replicate", "parallel_apply"}  # steps of forward that users do not call


def members(kind):
    return {n for c in kind.__mro__ if c is not object for n in vars(c) if not n.startswith("_")}


def names(function):
    return list(inspect.signature(function).parameters)


def test_all_are_here():
    # how torch splits its work
    assert {n for n in torch.nn.modules.__all__ if not hasattr(rushlight.nn, n)} <= {"LinearCrossEntropyOptions"}


@pytest.mark.parametrize("name", CLASSES)
def test_constructors_and_members(name):
    ours, theirs = getattr(rushlight.nn, name), getattr(torch.nn, name)
    if not {"args", "kwargs"} & {*names(ours.__init__), *names(theirs.__init__)}:
        assert names(ours.__init__) == names(theirs.__init__)
    assert not members(theirs) - members(ours) - OTHERWISE


def converted(value):
    """What modules are made of, for rushlight; NotImplementedError where there is no counterpart."""
    if isinstance(value, torch.Tensor):
        return rushlight.from_numpy(value.detach().numpy().copy())
    if isinstance(value, torch.dtype):
        return getattr(rushlight, str(value).split(".")[-1])
    if isinstance(value, (list, tuple)):
        return type(value)(map(converted, value)) if type(value) in (list, tuple) else tuple(map(converted, value))
    if type(value).__module__.startswith("torch"):
        raise NotImplementedError
    if callable(value):
        return getattr(rushlight.nn.functional, value.__name__)
    return value


def test_lazy_modules_become_what_they_stand_for():
    for name, argument, shape in (("LazyLinear", 3, (2, 5)), ("LazyConv2d", 3, (1, 4, 5, 5)),
                                  ("LazyBatchNorm1d", None, (3, 4)), ("LazyInstanceNorm2d", None, (2, 3, 4, 4))):
        found = []
        for library in (rushlight, torch):
            module = getattr(library.nn, name)(*([argument, 2] if "Conv" in name else [] if argument is None
                                                 else [argument]))
            before = repr(module)
            module(library.ones(shape))
            found.append((before, repr(module), type(module).__name__,
                          [tuple(v.shape) for v in module.state_dict().values()]))
        assert found[0] == found[1]


def test_batch_norms_of_many_processes():
    found = []
    for library in (rushlight, torch):
        module = library.nn.SyncBatchNorm.convert_sync_batchnorm(
            library.nn.Sequential(library.nn.BatchNorm1d(3, eps=0.1), library.nn.ReLU()))
        found.append((repr(module), list(module.state_dict())))
    assert found[0] == found[1]


def test_dictionaries_of_parameters():
    for library in (rushlight, torch):
        found = library.nn.ParameterDict({"a": library.ones(1), "b": library.zeros(2)})
        key, value = found.popitem()
        assert key == "b" and value.shape == (2,) and list(found) == ["a"] and list(
            found.fromkeys(["x", "y"], library.ones(1))) == ["x", "y"]


def constructors():
    for info in module_db:
        if getattr(rushlight.nn, info.name.rpartition(".")[2], None) is None:
            continue
        seen = set()
        for k, sample in enumerate(info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False,
                                                           training=True)):
            given = sample.constructor_input
            key = str((given.args, given.kwargs))
            if key not in seen and len(seen) < 4:
                seen.add(key)
                yield pytest.param(info.module_cls, given, id=f"{info.name}-{k}")


@pytest.mark.parametrize("kind,given", constructors())
def test_text_state_and_copies(kind, given):
    try:
        ours = getattr(rushlight.nn, kind.__name__)(*map(converted, given.args),
                                                    **{k: converted(v) for k, v in given.kwargs.items()})
    except NotImplementedError:
        pytest.skip("arguments without a counterpart")
    theirs = kind(*given.args, **given.kwargs)
    assert repr(ours) == repr(theirs) and ours.extra_repr() == theirs.extra_repr()
    for ask in (lambda m: list(m.state_dict()), lambda m: dict(m.state_dict()._metadata),
                lambda m: [n for n, _ in m.named_parameters()],
                lambda m: [n for n, _ in m.named_buffers()], lambda m: [n for n, _ in m.named_modules()],
                lambda m: m._version):
        assert ask(ours) == ask(theirs)
    if "Lazy" in kind.__name__:
        return
    for (path, a), (_, b) in zip(ours.named_modules(), theirs.named_modules(), strict=True):
        assert a.__reduce_ex__(2)[2].keys() == b.__reduce_ex__(2)[2].keys(), path  # each reads the other's files
    assert [tuple(p.shape) for p in ours.parameters()] == [tuple(p.shape) for p in theirs.parameters()]
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert repr(copied) == repr(ours) and type(copied) is type(ours)
        for (name, a), (_, b) in zip(ours.state_dict().items(), copied.state_dict().items(), strict=True):
            assert a.data_ptr() != b.data_ptr() or not a.numel(), name
            assert bool((a == b).all())


def test_modules_say_where_they_are_defined():
    for name in torch.nn.modules.__all__:
        place = sys.modules[getattr(rushlight.nn, name, rushlight.nn.Module).__module__]
        assert place.__name__ != "rushlight.nn.modules.transformer" or f"class {name}(" in inspect.getsource(
            place), name
    assert rushlight.nn.ModuleList.__module__ == "rushlight.nn.modules.container"
    assert rushlight.nn.MultiheadAttention.__module__ == "rushlight.nn.modules.activation"
