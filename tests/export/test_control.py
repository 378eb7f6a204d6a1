"""Control flow in exported programs: called, saved and loaded."""
import io

import pytest

import rushlight as torch


class Choice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x * self.weight, lambda x: x - self.weight, (x,))


class Loop(torch.nn.Module):
    def forward(self, x):
        return torch.while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 2), (torch.tensor(3), x))[1]


class Steps(torch.nn.Module):
    def forward(self, x):
        carried, rows = torch._higher_order_ops.scan(lambda c, a: (c + a, c * a), torch.zeros(()), x.repeat(100))
        return carried, rows[-2:]


@pytest.mark.parametrize("model", [Choice, Loop, Steps])
def test_called_saved_and_loaded(model):
    torch.manual_seed(0)
    module, x = model(), torch.tensor([1.0, -2.0, 0.5])
    program = torch.export.export(module, (x,))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for exported in (program.module(), torch.export.load(file).module()):
        for given in (x, x + 4):
            wanted, got = module(given), exported(given)
            assert torch.allclose(torch.cat([w.reshape(-1) for w in torch.utils._pytree.tree_leaves(wanted)]),
                                  torch.cat([g.reshape(-1) for g in torch.utils._pytree.tree_leaves(got)]))
