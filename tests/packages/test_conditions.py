"""Packages take the sizes that the exported program takes, whatever it assumes of them, and refuse the others."""
import itertools

import pytest

import rushlight as torch

from tests.export.trees import assert_same, load_again, load_package

Dim = torch.export.Dim


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.arange(12.0 * 12).reshape(12, 12))


def mask(self, x, y):
    t = x.shape[1]
    return x[:, None] * self.mask[:t, :t]


def pairs(self, x, y):
    return x.reshape(-1, 2) * 3


def thirds(self, x, y):
    return x.reshape(2, -1, 3).sum(1), x.shape[1] // 3


def sum_of_two(self, x, y):
    t, u = x.shape[1], y.shape[1]
    return self.mask[0, :t + u] + torch.cat([x[0], y[0]])


def equal(self, x, y):
    return x + y


def one_more(self, x, y):
    return x[:, 1:] + y


def not_beyond(self, x, y):
    return y[:, :x.shape[1]] + x


def least(self, x, y):
    return x.narrow(1, 3, x.shape[1] - 3) + x[:, :1], self.mask.narrow(0, 0, 5 + y.shape[1]).sum(0)


def double(self, x, y):
    return self.mask[1][:2 * x.shape[1]] + torch.cat([x[1], x[0]])


def halves(self, x, y):
    n = x.shape[1]
    return x.reshape(n // 2, 2, -1).sum(1), torch.cat([x[:, :n // 2], x[:, n // 2:]], 1) + x


def both(self, x, y):
    return self.mask[:x.shape[1] - y.shape[1]].sum(1) + x[0, y.shape[1]:]


def branch(self, x, y):
    if x.shape[1] > y.shape[1]:
        return x.sum(1) + y.sum(1)
    return x.prod(1)


BODIES = {body.__name__: (body, example) for body, example in (
    (mask, (5, 3)), (pairs, (5, 3)), (thirds, (6, 3)), (sum_of_two, (5, 3)), (equal, (5, 5)), (one_more, (5, 4)),
    (not_beyond, (3, 5)), (least, (5, 3)), (double, (4, 3)), (halves, (4, 3)), (both, (9, 3)),
    (branch, (5, 3)))}


def make_inputs(sizes):
    return tuple(torch.arange(2.0 * n).reshape(2, n) for n in sizes)


def accepts(model, inputs) -> bool:
    try:
        model(*inputs)
    except (RuntimeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("name", BODIES)
def test_sizes_are_those_of_the_program(name, tmp_path):
    body, example = BODIES[name]
    module = type("Model", (Masked,), {"forward": body})()
    program = load_again(torch.export.export(module, make_inputs(example), dynamic_shapes=({1: Dim.AUTO},
                                                                                           {1: Dim.AUTO})))
    called, package = program.module(), load_package(program, tmp_path / "model.pt2")
    taken = 0
    for sizes in itertools.product((1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 24), repeat=2):
        inputs = make_inputs(sizes)
        if accepts(called, inputs):
            assert_same(package(*inputs), called(*inputs))
            taken += 1
        else:
            with pytest.raises(ValueError, match="packaged for|compiled for|planned for|not among those"):
                package(*inputs)
    assert taken > 1


def test_what_sizes_have_to_meet_is_told(tmp_path):
    module = type("Model", (Masked,), {"forward": sum_of_two})()
    program = torch.export.export(module, make_inputs((5, 3)), dynamic_shapes=({1: Dim.AUTO}, {1: Dim.AUTO}))
    package = load_package(program, tmp_path / "model.pt2")
    with pytest.raises(ValueError, match=r"\(2, 9\), \(2, 4\).* have to meet .*13"):
        package(*make_inputs((9, 4)))
