"""A small program that uses most of the package: eager, compiled, backward, matmuls, a model's steps, memory that
processes share, files that replace others.  It prints its findings."""
import os
import sys
import tempfile

import rushlight as rl
from rushlight._src.core.files import replaced
from rushlight._src.core.platform import here


def numbers():
    x = rl.arange(12.).reshape(3, 4).requires_grad_()
    w = rl.ones(4, 5, requires_grad=True)
    rl.nn.functional.gelu(x @ w).sum().backward()
    a = rl.linspace(0, 1, 20).reshape(4, 5).requires_grad_()
    rl.compile(lambda a: (rl.sin(a) + a.exp().sum(1, keepdim=True)).mean())(a).backward()
    return w.grad[0].tolist(), round(a.grad.sum().item(), 4)


def steps():
    rl.manual_seed(0)
    model = rl.nn.Sequential(rl.nn.Linear(16, 64), rl.nn.ReLU(), rl.nn.Linear(64, 4))
    optimizer = rl.optim.AdamW(model.parameters(), lr=1e-2)
    x = rl.randn(256, 16)
    for _ in range(8):
        optimizer.zero_grad()
        loss = rl.nn.functional.mse_loss(model(x), (x[:, :4] > 0).float())
        loss.backward()
        optimizer.step()
    return round(loss.item(), 4)


def large():
    """Blocks that come from the system, kept and given back."""
    found = rl.ones(1 << 20).sum().item()
    rl._src.core.native.blocks.trim()
    return found, int((rl.ones(300, 300) @ rl.ones(300, 300)).sum().item())


def files():
    path = os.path.join(tempfile.mkdtemp(), "numbers")
    for value in (1., 2.):
        with replaced(path) as file:
            rl.save(rl.full((3,), value), file)
    x = rl.load(path).share_memory_()
    return x.tolist(), x.is_shared()


print("platform", here.name, sys.platform)
print(numbers(), steps(), large(), files(), rl.get_num_threads() >= 1)
