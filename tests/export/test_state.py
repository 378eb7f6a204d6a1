"""Programs that write to buffers and inputs are saved, read and packaged, and change both as the module does."""
import pytest

import rushlight as torch

from .trees import assert_same, load_again, load_package, pytree

nn = torch.nn


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(2))
        self.register_buffer("k", torch.ones(2), persistent=False)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.norm = State(), nn.BatchNorm1d(2)

    def forward(self, x):
        self.inner.n = self.inner.n * 2 + x
        return self.norm(torch.stack([x, self.inner.n, x * 3]))


def add_in_place(self, x):
    self.n.add_(1)
    return x + self.n


def write_into_input(self, x):
    x.add_(self.n)
    self.n += x
    return x * self.k


def assign(self, x):
    self.n = self.n + x
    return x + self.n


def assign_input(self, x):
    self.n = x
    return x + self.k


def assign_other_buffer(self, x):
    self.n = self.k
    return x + self.n


def assign_both(self, x):
    self.k = self.k * 2
    self.n += self.k
    return x + self.n


def swap(self, x):
    self.n, self.k = self.k, self.n + x
    return self.n, x


def return_what_was(self, x):
    before, self.n = self.n, self.n + x
    return before, before[1:], self.n


def assign_a_part(self, x):
    self.k = self.n.flip(0)[:1].expand(2)
    self.n.mul_(2).add_(x)
    return self.k


def assign_and_write(self, x):
    self.n.add_(x)
    self.n = self.n.flip(0) * 2
    self.n.mul_(3)
    return x + self.n


def assign_constant(self, x):
    found, self.n = self.n + x, torch.full((2,), 5.0)
    return found


def branch_on_what_was_assigned(self, x):
    self.n = self.n + 1
    self.n = self.n * x
    return self.n, {"n": self.n}


BODIES = {body.__name__: body for body in (
    add_in_place, write_into_input, assign, assign_input, assign_other_buffer, assign_both, swap, return_what_was,
    assign_a_part, assign_and_write, assign_constant, branch_on_what_was_assigned)}


def make(name):
    if name == "layers":
        return Layers()
    return type("Model", (State,), {"forward": BODIES[name]})()


def run(model, calls=3):
    """The results of calls, copied, since later calls may write to them; and what the inputs are after them."""
    found = []
    for k in range(calls):
        x = torch.tensor([1.0, 2.0]) * (k + 1)
        found += [pytree.tree_map(lambda one: one.detach().clone(), model(x)), x]
    return found


@pytest.mark.parametrize("name", [*BODIES, "layers"])
def test_state_after_several_calls_is_the_modules(name, tmp_path):
    module = make(name)
    wanted = run(module)
    program = torch.export.export(make(name), (torch.ones(2),))
    again = load_again(program)
    models = {"package": load_package(program, tmp_path / "a.pt2"),
              "package of a file": load_package(again, tmp_path / "b.pt2"),
              "decomposed": load_again(again).run_decompositions().module(), "file": again.module(),
              "program": program.module()}
    for one in models.values():
        assert_same(run(one), wanted)
        if hasattr(one, "state_dict"):
            assert_same(dict(sorted(one.state_dict().items())), dict(sorted(module.state_dict().items())))


@pytest.mark.parametrize("name", [*BODIES, "layers"])
def test_programs_that_have_run_are_saved_with_their_state(name):
    module, program = make(name), torch.export.export(make(name), (torch.ones(2),))
    assert_same(run(program.module()), run(module))
    assert_same(run(load_again(program).module()), run(module))


def test_export_leaves_the_module_as_it_was():
    module = make("swap")
    before = dict(module.named_buffers())
    torch.export.export(module, (torch.ones(2),))
    assert all(one is before[name] and one.tolist() == [float(name == "k")] * 2 for name, one in module.named_buffers())


def test_buffers_of_another_shape_are_refused():
    def grow(self, x):
        self.n = torch.cat([self.n, x])
        return x

    module = type("Model", (State,), {"forward": grow})()
    with pytest.raises(RuntimeError, match=r"replaces its buffer n, of the shape \(2,\), by the shape \(4,\)"):
        torch.export.export(module, (torch.ones(2),))
