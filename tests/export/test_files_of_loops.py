"""Files of programs with loops and custom operators: they come back, and PyTorch reads the loops."""
import io
import uuid

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


def looped(library, x):
    return library._higher_order_ops.while_loop(lambda n, a: n > 0, lambda n, a: (n - 1, a * 2 + 1), (
        library.tensor(3), x))[1]


def scanned(library, x):
    if library is rl:
        carried, rows = rl._higher_order_ops.scan(lambda c, a: (c + a, c * a), rl.zeros(3), x)
    else:
        from torch._higher_order_ops.scan import scan
        carried, rows = scan(lambda c, a: (c + a, c * a), torch.zeros(3), x)
    return carried, rows


def module(library, call):
    class Calling(library.nn.Module):
        def forward(self, x):
            return call(library, x)

    return Calling()


def read(library, program, own=rl):
    file = io.BytesIO()
    own.export.save(program, file)
    file.seek(0)
    return library.export.load(file)


X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")


@pytest.mark.parametrize("call", (looped, scanned))
@pytest.mark.parametrize("reader", (rl, torch), ids=("here", "pytorch"))
def test_loops_come_back(call, reader):
    wanted = rl.utils._pytree.tree_leaves(call(rl, rl.tensor(X)))
    program = rl.export.export(module(rl, call), (rl.tensor(X),))
    back = read(reader, program)
    found = reader.utils._pytree.tree_leaves(back.module()(reader.tensor(X)))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    if reader is rl:
        assert back.graph_module.code == program.graph_module.code


@pytest.mark.parametrize("call", (looped, scanned))
def test_loops_of_pytorch_run_here(call):
    program = torch.export.export(module(torch, call), (torch.tensor(X),))
    found = rl.utils._pytree.tree_leaves(read(rl, program, torch).module()(rl.tensor(X)))
    for a, b in zip(found, torch.utils._pytree.tree_leaves(program.module()(torch.tensor(X))), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def test_operators_of_ones_own_come_back():
    name = f"files::doubled_{uuid.uuid4().hex[:8]}"

    @rl.library.custom_op(name, mutates_args=())
    def doubled(x: rl.Tensor, by: float = 2.0) -> rl.Tensor:
        return rl.tensor(x.numpy() * by)

    @doubled.register_fake
    def _(x, by=2.0):
        return rl.empty_like(x)

    program = rl.export.export(module(rl, lambda library, x: doubled(x, 3.0) + 1), (rl.tensor(X),))
    file = io.BytesIO()
    rl.export.save(program, file)
    file.seek(0)
    back = rl.export.load(file)
    np.testing.assert_allclose(back.module()(rl.tensor(X)).numpy(), X * 3 + 1, rtol=1e-6)
    assert back.graph_module.code == program.graph_module.code and name.replace("::", ".") in back.graph_module.code
