"""What libraries ask of operators, loaders, files and classes beyond their usual calls; PyTorch is the judge."""
import importlib
import io
from itertools import count

import pytest
import torch as judge
from torch.utils._contextlib import _DecoratorContextManager as JudgedContext, context_decorator as judged_decorator

import rushlight as torch
from rushlight.utils._contextlib import _DecoratorContextManager, context_decorator
from rushlight.utils.data.dataloader import _DatasetKind, _SingleProcessDataLoaderIter

LIBRARIES = pytest.mark.parametrize("lib", [torch, judge], ids=["rushlight", "torch"])


@LIBRARIES
@pytest.mark.parametrize("rtol, atol, close", [(0.1, 0.0, True), (0.0, 0.1, True), (0.01, 0.01, False)])
def test_tolerances_are_tensors(lib, rtol, atol, close):
    one, other, rtol, atol = lib.ones(2), lib.full((2,), 1.05), lib.tensor(rtol), lib.tensor(atol)
    assert lib.allclose(one, other, rtol=rtol, atol=atol) is close
    assert lib.isclose(one, other, rtol=rtol, atol=atol).tolist() == [close] * 2


@LIBRARIES
def test_tolerances_below_zero_are_errors(lib):
    with pytest.raises(RuntimeError, match="greater than or equal to zero"):
        lib.allclose(lib.ones(2), lib.ones(2), rtol=lib.tensor(-1.0))


@LIBRARIES
def test_broadcast_to_takes_sizes(lib):
    x = lib.ones(1, 3)
    assert x.broadcast_to(2, 3).shape == x.broadcast_to((2, 3)).shape == lib.broadcast_to(x, size=(2, 3)).shape


@pytest.mark.parametrize("subscripts", [([0, 1], [1, 2], [0, 2]), ([0, 1], [1, 2], [2, 0]), ([51, 30], [30, 26], None),
                                        ([..., 1], [1, 2], [..., 2]), ([0, 0], [0, 1], None)])
def test_einsum_takes_lists(subscripts):
    found = []
    for lib in (torch, judge):
        left, right, out = subscripts
        arguments = (lib.arange(9.0).reshape(3, 3), left, lib.arange(12.0).reshape(3, 4), right)
        found.append(lib.einsum(*arguments, *(() if out is None else (out,))).tolist())
    assert found[0] == found[1]


@LIBRARIES
def test_einsum_refuses_subscripts_beyond_letters(lib):
    with pytest.raises((ValueError, RuntimeError), match="subscript"):
        lib.einsum(lib.ones(2), [52])


class Batches:
    """A loader of another package, whose dataset is any iterable."""

    dataset_kind = _dataset_kind = _DatasetKind.Iterable
    _IterableDataset_len_called, _auto_collation, drop_last, in_order = None, False, False, True
    generator, prefetch_factor, timeout, num_workers, worker_init_fn = None, 2, 0, 0, None
    pin_memory, persistent_workers, pin_memory_device, multiprocessing_context = False, False, "", None

    def __init__(self):
        self.dataset, self._index_sampler, self.collate_fn = self, count(), lambda x: x

    def __iter__(self):
        return iter([torch.ones(2), torch.zeros(2)])


def test_a_loader_says_that_its_dataset_is_a_stream():
    assert [b.tolist() for b in _SingleProcessDataLoaderIter(Batches())] == [[1.0, 1.0], [0.0, 0.0]]


@LIBRARIES
def test_keywords_of_functions(lib):
    assert lib.meshgrid.__kwdefaults__ == {"indexing": None} or lib is judge


@LIBRARIES
def test_hooks_of_all_optimizers_see_the_inner_one_alone(lib):
    register = importlib.import_module(f"{lib.__name__}.optim.optimizer").register_optimizer_step_post_hook

    class Wrapper(lib.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            return self.inner.step(closure)

    seen, p = [], lib.nn.Parameter(lib.ones(2))
    p.grad = lib.ones(2)
    handle = register(lambda optimizer, *rest: seen.append(type(optimizer).__name__))
    try:
        Wrapper(lib.optim.SGD([p], 0.5)).step()
    finally:
        handle.remove()
    assert seen == ["SGD"] and p.tolist() == [0.5, 0.5]


@LIBRARIES
def test_subclasses_of_parameters_do_not_override(lib):
    class Mine(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    class Weight(lib.nn.Parameter):
        pass

    x, weight = lib.ones(2, 4).as_subclass(Mine), Weight(lib.ones(4))
    assert type(x + weight) is type(weight + x) is Mine
    assert type(weight + 1) is type(lib.nn.Parameter.__torch_function__(lib.add, (Mine,), (x, 1.0), {})) is lib.Tensor


class Sink:
    """A file elsewhere: it knows no position."""

    def __init__(self):
        self.data, self.flushed = b"", 0

    def write(self, data):
        self.data += bytes(data)
        return len(data)

    def tell(self):
        raise NotImplementedError

    seek = tell

    def flush(self):
        self.flushed += 1


def test_save_into_what_knows_no_position():
    sink, value = Sink(), {"a": torch.arange(5.0), "b": [1, "two"]}
    torch.save(value, sink)
    assert sink.flushed
    for lib in (torch, judge):
        found = lib.load(io.BytesIO(sink.data))
        assert found["a"].tolist() == value["a"].tolist() and found["b"] == value["b"]


@pytest.mark.parametrize("base", [_DecoratorContextManager, JudgedContext])
def test_contexts_decorate(base):
    seen = []

    class Noted(base):
        def __enter__(self):
            seen.append("in")

        def __exit__(self, *error):
            seen.append("out")

    @Noted()
    def numbers():
        seen.append(1)
        yield
        seen.append(2)

    assert Noted()(len)("abc") == 3
    list(numbers())
    assert seen == ["in", "out", "in", 1, "out", "in", 2, "out"]


@pytest.mark.parametrize("lib, decorator", [(torch, context_decorator), (judge, judged_decorator)])
def test_contexts_of_decorators(lib, decorator):
    assert decorator(lambda: lib.no_grad(), lib.is_grad_enabled)() is False
    with pytest.raises(AssertionError, match="ctx|Passed"):
        decorator(lib.no_grad(), len)
    with pytest.raises(RuntimeError, match="class"):
        decorator(lambda: lib.no_grad(), dict)


def test_onnx_is_written_into_a_buffer():
    onnx, buffer = pytest.importorskip("onnx"), io.BytesIO()
    torch.onnx.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),), buffer, dynamo=False)
    assert onnx.load_from_string(buffer.getvalue()).graph.initializer


def test_a_profiler_is_told_of():
    assert not torch.autograd._profiler_enabled()
    with torch.profiler.profile():
        assert torch.autograd._profiler_enabled()
    assert not torch.autograd._profiler_enabled()


@LIBRARIES
def test_generic_classes(lib):
    from torch.distributed.rpc import RRef as judged

    from rushlight.distributed.rpc import RRef
    assert (RRef if lib is torch else judged)[int]
