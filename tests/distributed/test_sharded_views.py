"""Views of DTensors and writes through them: values and gradients are those of plain tensors."""
from __future__ import annotations

import datetime

import pytest

import rushlight as rl
from rushlight._src.core.settings import settings
from rushlight.distributed import threads
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh

PATIENCE = datetime.timedelta(minutes=10)


@pytest.fixture(autouse=True)
def by_meaning():
    """Run programs by their NumPy reference implementation: these tests are about sharding, not kernels."""
    with settings.set(kernels=False, store=False):
        yield


VIEWS = {
    "view": lambda y: y.view(24), "transposed": lambda y: y.t(), "permuted": lambda y: y.permute(1, 0),
    "slice of rows": lambda y: y[1:3], "slice of columns": lambda y: y[:, 1::2], "row": lambda y: y[2],
    "column": lambda y: y.select(1, 4), "narrow": lambda y: y.narrow(0, 0, 3), "diagonal": lambda y: y.diagonal(1),
    "unsqueezed": lambda y: y.unsqueeze(1), "split up": lambda y: y.unflatten(1, (2, 3)),
    "reshaped": lambda y: y.reshape(2, 2, 6), "of a view": lambda y: y.t()[1:4].unsqueeze(0),
    "flat part": lambda y: y.view(24)[5:11], "of a column": lambda y: y[:, 2].view(2, 2),
}
WRITES = {
    "mul_": lambda v: v.mul_(3), "add_": lambda v: v.add_(v.detach().sin()), "copy_": lambda v: v.copy_(v.detach() * 2),
    "zero_": lambda v: v.zero_(), "sigmoid_": lambda v: v.sigmoid_(), "fill_": lambda v: v.fill_(0.5),
    "square": lambda v: v.pow_(2), "setitem": lambda v: v.__setitem__(0, 4.0),
    "masked_fill_": lambda v: v.masked_fill_(v.detach() > 10, 2.0),
}
PLACEMENTS = {2: ((Shard(0),), (Shard(1),), (Replicate(),), (Partial(),)),
              4: ((Shard(0), Shard(1)), (Replicate(), Shard(0)), (Shard(1), Partial()))}


def outcome(make, view, write, through):
    """Values and gradient after a write: through a view, to its base, or through another view."""
    x = make()
    y = x * 1.5
    v, u = view(y), y.view(4, 6)
    write({"view": v, "base": y, "other": u}[through])
    loss = (v * v).sum() + (y * y).sum() * 2 + (u * u * u).sum()
    loss.backward()
    return [whole(t) for t in (v.detach(), y.detach(), u.detach(), loss.detach(), x.grad)]


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@pytest.mark.parametrize("through", ("view", "base", "other"))
@pytest.mark.parametrize("processes", (2, 4))
def test_writes_are_those_of_plain_tensors(processes, through):
    """Each view with some writes, each write with some views, over all placements."""
    plain = rl.arange(1.0, 25.0).reshape(4, 6) / 4
    pairs = [(v, w) for k, v in enumerate(VIEWS) for n, w in enumerate(WRITES) if (k + n) % 9 == len(through)]

    def check(rank):
        mesh = init_device_mesh("cpu", (2,) if processes == 2 else (2, 2))
        for placements in PLACEMENTS[processes]:
            for view, write in pairs:
                def make():
                    return distribute_tensor(plain, mesh, placements).requires_grad_()
                case = placements, view, write
                found = outcome(make, VIEWS[view], WRITES[write], through)
                wanted = outcome(lambda: plain.clone().requires_grad_(), VIEWS[view], WRITES[write], through)
                for k, (a, b) in enumerate(zip(found, wanted)):
                    assert rl.allclose(a, b, rtol=1e-5), (case, k, a, b)
    threads.run(processes, check, timeout=PATIENCE)


IN_PLACE = {"t_": lambda y: y.t_(), "transpose_": lambda y: y.transpose_(0, 1), "unsqueeze_": lambda y: y.unsqueeze_(1),
            "squeeze_": lambda y: y.unsqueeze_(0).squeeze_(0), "swapaxes_": lambda y: y.swapaxes_(-1, 0)}


def test_tensors_become_views_of_themselves():
    """Parts and placements follow; gradients, and ``resize_`` and ``set_``, which replace memory, are refused."""
    plain = rl.arange(1.0, 25.0).reshape(4, 6) / 4

    def outcome(y, become):
        become(y)
        y.mul_(2)
        v = y[1:]
        y.add_(1)
        return [whole(t) for t in (y, y * 2, v)]

    def check(rank):
        mesh = init_device_mesh("cpu", (2,))
        for placements in PLACEMENTS[2][:3]:
            for name, become in IN_PLACE.items():
                found = outcome(distribute_tensor(plain.clone(), mesh, placements), become)
                for a, b in zip(found, outcome(plain.clone(), become)):
                    assert a.shape == b.shape and rl.allclose(a, b), (name, placements)
                with pytest.raises(NotImplementedError, match="requires a gradient"):
                    become(distribute_tensor(plain, mesh, placements).requires_grad_() * 1)
            tensor = distribute_tensor(plain, mesh, placements)
            for call in (lambda: tensor.resize_(2, 12), lambda: tensor.set_(rl.ones(3))):
                with pytest.raises(NotImplementedError, match="DTensor"):
                    call()
    threads.run(2, check, timeout=PATIENCE)
