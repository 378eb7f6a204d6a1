"""Tensors of the device meta beside those with data: nothing is taken silently from where nothing is."""
import io
import pickle

import numpy as np
import pytest
import torch

import rushlight as rl

BOTH = pytest.mark.parametrize("M", (torch, rl), ids=("torch", "rushlight"))


def none(M, *shape, **how):
    return M.ones(*shape or (3,), device="meta", **how)


@BOTH
@pytest.mark.parametrize("write", [
    lambda M, x: x.copy_(none(M)), lambda M, x: x.__setitem__(0, none(M, 1)[0]),
    lambda M, x: x.__setitem__(slice(0, 2), none(M, 2)), lambda M, x: M._foreach_copy_([x], [none(M)]),
    lambda M, x: M.ones(3, requires_grad=True).clone().copy_(none(M))],
    ids=("copy_", "item", "slice", "foreach", "history"))
def test_nothing_is_copied_out(M, write):
    x = M.zeros(3)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        write(M, x)
    assert x.tolist() == [0.0] * 3


@BOTH
def test_results_are_not_written_elsewhere(M):
    for given, out in ((none(M), M.zeros(3)), (M.zeros(3), none(M))):
        with pytest.raises(RuntimeError, match="cross-device copies are not allowed"):
            M.add(given, given, out=out)


def test_targets_keep_their_values_or_say_why():
    """PyTorch writes nothing here, without a word."""
    x = rl.zeros(())
    with pytest.raises(RuntimeError, match="same device"):
        x.add_(rl.ones((), device="meta"))
    with pytest.raises(RuntimeError, match="same device"):
        rl.arange(3)[rl.tensor([0], device="meta")]


@BOTH
def test_indices_may_have_data(M):
    index = M.tensor([0, 2])
    assert none(M)[index].is_meta and none(M)[index].shape == (2,)
    assert none(M).index_put_((index,), M.tensor(1.0)).is_meta
    assert none(M).copy_(M.ones(3)).is_meta


@BOTH
def test_attributes_lie_where_their_tensor_does(M):
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        M.zeros(3).data = none(M)
    with pytest.raises(RuntimeError, match="device type 'meta'"):
        M.zeros(3, requires_grad=True).grad = none(M)
    with pytest.raises(RuntimeError, match="the devices must match"):
        M.zeros(3).set_(none(M))
    assert not M._has_compatible_shallow_copy_type(M.zeros(3), none(M))
    assert M._has_compatible_shallow_copy_type(M.zeros(3), M.zeros(2))


@BOTH
def test_modules_get_new_parameters(M):
    module = M.nn.Linear(2, 2)
    weight = module.weight
    with pytest.raises(RuntimeError, match="no data"):
        module.load_state_dict(M.nn.Linear(2, 2, device="meta").state_dict())
    module.to("meta")
    assert module.weight.is_meta and not weight.is_meta and isinstance(module.weight, M.nn.Parameter)
    assert module.weight.requires_grad
    assert M.nn.Linear(2, 2, device="meta").to_empty(device="cpu").weight.device.type == "cpu"


@BOTH
def test_metadata_is_pickled(M):
    x = M.nn.Parameter(none(M, 3, 4).t())
    y = pickle.loads(pickle.dumps(x))
    assert (type(y), y.shape, y.stride(), y.device.type, y.requires_grad) == (type(x), (4, 3), (1, 4), "meta", True)
    file = io.BytesIO()
    M.save({"x": x}, file)
    file.seek(0)
    assert M.load(file)["x"].is_meta


@BOTH
@pytest.mark.parametrize("dtype", (">f8", ">i4", ">c8"))
def test_bytes_in_another_order_are_refused(M, dtype):
    with pytest.raises(ValueError, match="byte order"):
        M.from_numpy(np.ones(3, dtype))
    with pytest.raises(ValueError, match="byte order"):
        M.tensor(np.ones(3, dtype))
