"""Exported programs with their backward pass: results and gradients are PyTorch's, and so is the signature."""
import io

import pytest

import rushlight as rl
from rushlight.export.experimental import _export_forward_backward

torch = pytest.importorskip("torch")
experimental = pytest.importorskip("torch.export.experimental")
pytestmark = pytest.mark.filterwarnings("ignore")


def net(library, result=lambda x: x.detach()):
    class Net(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = library.nn.Linear(3, 4), library.nn.LayerNorm(4), library.nn.Linear(4, 2)
            self.register_buffer("count", library.zeros(2))

        def forward(self, x, y):
            self.count.add_(1)
            found = self.last(library.tanh(self.norm(self.first(x)))) + self.count
            return result(found), library.nn.functional.mse_loss(found, y)

    library.manual_seed(0)
    return Net()


def example(library):
    return library.linspace(-1, 1, 12).reshape(4, 3).requires_grad_(), library.ones(4, 2)


@pytest.fixture(scope="module")
def programs():
    """(our joint program, PyTorch's), of equal weights."""
    theirs, mine = net(torch), net(rl)
    mine.load_state_dict({k: rl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    judge = experimental._export_forward_backward(torch.export.export(theirs, example(torch)), 1)
    return _export_forward_backward(rl.export.export(mine, example(rl)), 1), judge


def only_aten(program):
    return all(getattr(node.target, "namespace", "aten") == "aten" for node in program.graph.nodes)


def told(signature):
    return [(s.kind.name, s.target) for s in signature.output_specs]


def test_signatures_are_those_of_pytorch(programs):
    mine, theirs = (program.graph_signature for program in programs)
    assert told(mine)[-1] == ("GRADIENT_TO_USER_INPUT", "x")  # PyTorch tells a name from within there
    assert told(mine)[:-1] == told(theirs)[:-1] and told(theirs)[-1][0] == told(mine)[-1][0]
    assert list(mine.backward_signature.gradients_to_parameters.values()) == list(
        theirs.backward_signature.gradients_to_parameters.values())
    assert list(mine.backward_signature.gradients_to_user_inputs.values()) == ["x"]
    assert mine.backward_signature.loss_output == mine.user_outputs[1] and len(mine.user_outputs) == 2
    assert only_aten(programs[0])


@pytest.mark.parametrize("loaded", [False, True])
def test_gradients_are_those_of_pytorch(programs, loaded):
    program = programs[0]
    if loaded:
        file = io.BytesIO()
        rl.export.save(program, file)
        program = rl.export.load(io.BytesIO(file.getvalue()))
        assert told(program.graph_signature) == told(programs[0].graph_signature)
    model = net(torch)
    model.load_state_dict({k: torch.tensor(v.detach().numpy()) for k, v in program.state_dict.items()})
    args = example(torch)
    found, loss = model(*args)
    loss.backward()
    wanted = [found, loss, *(p.grad for p in model.parameters()), args[0].grad]
    for a, b in zip(program.module()(*example(rl)), wanted, strict=True):
        torch.testing.assert_close(torch.tensor(a.detach().numpy()), b.detach(), rtol=1e-4, atol=1e-6)


FUNCTIONS = {
    "a number first": lambda t, x, y: (2 / (1.5 - x.tanh()) + 2 ** x).sum(),
    "products of batches": lambda t, x, y: (x.reshape(2, 3, 2) @ y.reshape(2, 2, 3)).sin().sum(),
    "a convolution": lambda t, x, y: t.nn.functional.conv1d(x.reshape(1, 2, 6), y.reshape(3, 2, 2)).square().sum(),
    "groups and strides": lambda t, x, y: t.nn.functional.conv1d(
        x.reshape(2, 1, 6).repeat(1, 2, 1), y.reshape(6, 1, 2), None, 2, 1, 2, 2).square().sum(),
    "a transposed convolution": lambda t, x, y: t.nn.functional.conv_transpose2d(
        x.reshape(1, 2, 2, 3), y.reshape(2, 1, 2, 3), stride=2, padding=1, output_padding=1).square().sum(),
    "attention": lambda t, x, y: t.nn.functional.scaled_dot_product_attention(
        *(v.reshape(1, 1, 6, 2) for v in (x, y, x))).square().sum(),
    "a cross entropy": lambda t, x, y: t.nn.functional.cross_entropy(x.reshape(6, 2), y.reshape(6, 2).softmax(-1)),
    "extremes": lambda t, x, y: (t.maximum(x, y) + x.amax(-1, True) + x.cummax(0).values + x.clamp(-0.5, 0.5)).sum(),
    "places": lambda t, x, y: (x[[0, 0, 1]] * y.cumsum(0)[:3] + x.gather(0, t.tensor([[0, 1, 2]] * 3))).sum(),
    "norms": lambda t, x, y: t.nn.functional.group_norm(x.reshape(2, 2, 3), 2).mul(y.reshape(2, 2, 3)).exp().sum(),
    "pooling": lambda t, x, y: (t.nn.functional.avg_pool1d(x, 2) * t.nn.functional.max_pool1d(y, 2)).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_operators_of_aten_and_hold_for_other_inputs(name):
    def inputs(library, shift):
        values = [library.linspace(-1 + shift, 1, 12), library.cos(3 * library.linspace(0, 2, 12) + shift)]
        return [v.reshape(4, 3).requires_grad_() for v in values]

    class Loss(rl.nn.Module):
        def forward(self, x, y):
            return FUNCTIONS[name](rl, x, y)

    program = _export_forward_backward(rl.export.export(Loss(), tuple(inputs(rl, 0))))
    assert only_aten(program)
    given = inputs(torch, 0.3)
    loss = FUNCTIONS[name](torch, *given)
    wanted = [loss, *torch.autograd.grad(loss, given, materialize_grads=True)]
    for a, b in zip(program.module()(*inputs(rl, 0.3)), wanted, strict=True):
        torch.testing.assert_close(torch.tensor(a.detach().numpy()), b.detach(), rtol=1e-4, atol=1e-5)


def test_what_has_no_joint_program_is_refused():
    program = rl.export.export(net(rl, lambda x: x), example(rl))
    with pytest.raises(RuntimeError, match="that was not the scalar loss"):
        _export_forward_backward(program, 1)
    with pytest.raises(RuntimeError, match="must be a scalar"):
        _export_forward_backward(program, 0)
    varying = rl.export.export(rl.nn.Linear(3, 1), (rl.ones(4, 3),), dynamic_shapes=({0: rl.export.Dim("n")},))
    with pytest.raises(RuntimeError, match="fixed sizes"):
        _export_forward_backward(varying)
    assert program.graph_signature.backward_signature is None
