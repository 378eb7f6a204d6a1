"""FakeTensorMode: no operator in the block computes anything, and its tensors say where they lie."""
import copy
import warnings

import pytest

import rushlight as torch
from rushlight import nn
from rushlight._guards import detect_fake_mode
from rushlight._subclasses.fake_tensor import (DataDependentOutputException, DynamicOutputShapeException, FakeTensor,
                                               FakeTensorDeviceMismatchError, FakeTensorMode, is_fake)
from rushlight.nn import functional as F
from rushlight.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

HUGE = 1 << 40


@pytest.mark.parametrize("make, shape", [
    (lambda t: t.zeros(HUGE), (HUGE,)), (lambda t: t.rand(HUGE, device="cpu") * 2, (HUGE,)),
    (lambda t: t.ones(4, HUGE).sum(1), (4,)), (lambda t: t.tensor([1.0, 2.0], device="cpu").exp(), (2,)),
    (lambda t: t.full((2, 3), 1.0, device="cpu"), (2, 3)),
    (lambda t: t.arange(6).reshape(2, 3).float() @ t.randn(3, 4), (2, 4)),
    (lambda t: F.conv2d(t.ones(1, 3, 8, 8), t.ones(2, 3, 3, 3)), (1, 2, 6, 6)),
    (lambda t: t.zeros(3, 4)[1:, None].add_(1), (2, 1, 4)), (lambda t: t.cat([t.zeros(2), t.ones(3)]), (5,)),
    (lambda t: torch.nn.Linear(3, HUGE)(t.ones(2, 3)), (2, HUGE)),
    (lambda t: t.hann_window(8), (8,)), (lambda t: t.stack([t.eye(3), t.tril(t.ones(3, 3))]), (2, 3, 3)),
    (lambda t: F.one_hot(t.tensor([0, 2]), 3), (2, 3)),
    (lambda t: F.scaled_dot_product_attention(*3 * (t.randn(1, 2, 8, 4),)), (1, 2, 8, 4)),
    (lambda t: t.zeros_like(t.ones(3)).new_ones(2), (2,))])
@pytest.mark.parametrize("where", ["cpu", "cuda:0"])
def test_nothing_is_computed(make, shape, where):
    with FakeTensorMode():
        found = make(torch)
        assert isinstance(found, FakeTensor) and tuple(found.shape) == shape and not found.is_meta
        assert found.to(where).device == torch.device(where)
    assert not is_fake(torch.ones(2))


def test_tensors_with_data():
    real = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    shown = real.detach()[:, 1:]
    with FakeTensorMode() as mode:
        with pytest.raises(AssertionError, match=r"convert all Tensors.*Found in aten.add.Tensor\(tensor"):
            real + 1
        fake = mode.from_tensor(real)
        assert fake.stride() == real.stride() and fake.requires_grad and fake.is_leaf and mode.from_tensor(real) is fake
        part = mode.from_tensor(shown)
        assert part.untyped_storage()._cdata == fake.untyped_storage()._cdata and part.storage_offset() == 3
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(real + 1, FakeTensor)
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        FakeTensorMode().from_tensor(torch.ones(2)) + FakeTensorMode().from_tensor(torch.ones(2))
    assert type(real + 1) is torch.Tensor


def test_devices():
    with FakeTensorMode():
        a, b = torch.empty(3, 4, device="cuda"), torch.ones(3, 4)
        assert (a.device.index, a.get_device(), a.is_cuda, b.is_cpu) == (0, 0, True, True)
        assert (a @ torch.empty(4, 2, device="cuda")).device == a.device == (
            a + torch.tensor(1.0)).device == b.cuda().device
        assert a.cpu().device == b.device and torch.zeros_like(b, device="cuda").is_cuda
        with pytest.raises(FakeTensorDeviceMismatchError, match="cuda:0 and cpu"):
            a + b
        assert repr(a.double()) == "FakeTensor(..., device='cuda:0', size=(3, 4), dtype=torch.float64)"
        assert f"{b[0]}" == "FakeTensor(..., size=(4,))"


@pytest.mark.parametrize("ask, error", [
    (lambda x: x.sum().item(), DataDependentOutputException),
    (lambda x: bool(x.sum() > 0), DataDependentOutputException), (lambda x: x.tolist(), DataDependentOutputException),
    (lambda x: x.nonzero(), DynamicOutputShapeException), (lambda x: x[x > 0], DynamicOutputShapeException),
    (lambda x: x.unique(), DynamicOutputShapeException),
    (lambda x: torch.equal(x, x), DataDependentOutputException), (lambda x: x.numpy(), RuntimeError),
    (lambda x: x + torch.ones(3), RuntimeError)])
def test_elements_are_refused(ask, error):
    with FakeTensorMode():
        with pytest.raises(error):
            ask(torch.randn(4))


def test_single_numbers_stay_known():
    with FakeTensorMode():
        assert (torch.tensor(5).item(), int(torch.tensor([3])), (torch.tensor(2) + torch.tensor(3)).item()) == (5, 3, 5)
        number = torch.tensor(2.0)
        number.add_(torch.randn(()))
        with pytest.raises(DataDependentOutputException):
            number.item()


def test_modules_gradients_and_copies():
    with FakeTensorMode() as mode:
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.randn(2, 3, 8, 8)).sum().backward()
        optimizer.step()
        weight = model[0].weight
        assert isinstance(weight, nn.Parameter) and isinstance(weight.grad,
                                                               FakeTensor) and optimizer.state[weight][
                                                                   "exp_avg"].shape == weight.shape
        assert isinstance(_get_current_dispatch_mode(), FakeTensorMode) and isinstance(mode, TorchDispatchMode)
    real = nn.Linear(3, 4)
    parameters = {name: mode.from_tensor(p) for name, p in real.named_parameters()}
    with mode:
        assert torch.func.functional_call(real, parameters, (torch.randn(2, 3),)).shape == (2, 4)
    copied = copy.deepcopy(weight)
    assert isinstance(copied, nn.Parameter) and copied.fake_mode is mode and detect_fake_mode([copied]) is mode and (
        copied + 1).shape == weight.shape


def test_views_and_writes():
    with FakeTensorMode():
        x = torch.randn(4, 4)
        y = x[1:, None]
        assert y._base is x and y.storage_offset() == 4
        x.add_(1)
        x.t_()
        assert x.stride() == (1, 4) and x._version == 2 == y._version
    z = torch.empty(4, 4, device="meta")  # of which the same holds
    assert all(v._base is z and v.untyped_storage()._cdata == z.untyped_storage()._cdata
               for v in (z.t(), z.view(16), z[:, 1:], z.diagonal(), z.expand(2, 4, 4)))
    assert z.chunk(2)[1].storage_offset() == 8 and z.add_(1)._version == 1


def test_derivations_are_not_seen_by_modes():
    class Seen(torch.overrides.TorchFunctionMode):
        names = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(getattr(func, "name", ""))
            return func(*args, **(kwargs or {}))

    x = torch.randn(2, 3, requires_grad=True)
    with Seen():
        torch.func.grad(lambda v: F.batch_norm(v, None, None, training=True).sum())(x)
    assert not any(name and name.startswith("prims.rsqrt") for name in Seen.names)


def test_other_classes_give_numbers_too():
    """Of any class with ``__torch_dispatch__``, not of FakeTensor alone."""
    class Held(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*[a.as_subclass(torch.Tensor) if isinstance(a, Held) else a for a in args], **(kwargs or {}))

    x = torch.tensor([2.5, 0.0]).as_subclass(Held)
    assert x[0].item() == 2.5 and x.nonzero().as_subclass(torch.Tensor).tolist() == [[0]]


def test_sizes_stay_numbers_whatever_the_shape_env():
    from rushlight.fx.experimental.symbolic_shapes import ShapeEnv
    with pytest.warns(UserWarning, match="keeps sizes as numbers"):
        mode = FakeTensorMode(shape_env=ShapeEnv())
    assert mode.static_shapes and [type(size) for size in mode.from_tensor(torch.ones(3, 4)).shape] == [int, int]
    with mode, pytest.raises(DynamicOutputShapeException):
        torch.randn(3, 4).nonzero()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        modes = FakeTensorMode(shape_env=ShapeEnv(),
                               static_shapes=True), FakeTensorMode(shape_env=ShapeEnv(assume_static_by_default=True))
    for mode in modes:
        assert mode.from_tensor(torch.ones(3, 4)).t().shape == (4, 3) and mode.shape_env.guards == []
    with pytest.raises(AttributeError, match="sizes are static here"):
        ShapeEnv().create_unbacked_symint()
