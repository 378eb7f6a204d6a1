"""Random programs: whole, they compute what they compute operator by operator, gradients and written arguments
included."""
import random

import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F

from ..whole import whole

pytestmark = pytest.mark.sampled  # all cases with `-m long`

SIZE = 6


def pick(values, draw):
    return values[draw.randrange(len(values))]


def square(value):
    return value.dim() == 2 and tuple(value.shape) == (SIZE, SIZE)


def write_row(value, other, draw):
    fresh = value * 1.0
    fresh[draw.randrange(SIZE)] = other[0]
    return fresh


def write_part(value, other, draw):
    fresh = value + 0.5
    fresh[1:4, ::2].mul_(2).add_(other[:3, :3])
    fresh.t()[2].copy_(other[:, 1])
    return fresh


STEPS = {
    "add": lambda a, b, d: a + b, "mul": lambda a, b, d: a * b * 0.3, "sub": lambda a, b, d: a - 2 * b,
    "tanh": lambda a, b, d: torch.tanh(a), "gelu": lambda a, b, d: F.gelu(a), "relu": lambda a, b, d: torch.relu(a),
    "product": lambda a, b, d: a @ b * 0.3, "transposed product": lambda a, b, d: (a.T @ b).T * 0.3,
    "t": lambda a, b, d: a.t(),
    "softmax": lambda a, b, d: torch.softmax(a, pick((0, 1), d)),
    "centred": lambda a, b, d: a - a.mean(pick((0, 1), d), keepdim=True),
    "norm": lambda a, b, d: F.layer_norm(a, (SIZE,)), "linear": lambda a, b, d: F.linear(a, b, b[0]) * 0.3,
    "joined": lambda a, b, d: torch.cat([a[:, :2], b[:, 2:]], 1),
    "parts": lambda a, b, d: sum(part * k for k, part in enumerate(a.chunk(3, 1))).repeat(1, 3),
    "rolled": lambda a, b, d: a.roll(2, 0), "flipped": lambda a, b, d: a.flip(1),
    "reshaped": lambda a, b, d: a.reshape(3, 2, SIZE).transpose(0, 1).reshape(SIZE, SIZE),
    "outer": lambda a, b, d: a.sum(0)[:, None] * b.amax(1)[None] * 0.1,
    "taken": lambda a, b, d: a[torch.arange(SIZE - 1, -1, -1)],
    "row": write_row, "part": write_part, "dropout": lambda a, b, d: F.dropout(a, 0.4),
    "masked": lambda a, b, d: torch.where(a > b, a, 0.5 * b),
    "picture": lambda a, b, d: F.conv2d(a.view(1, 1, SIZE, SIZE), b[:3, :3].reshape(1, 1, 3, 3),
                                        padding=1).view(SIZE, SIZE) * 0.3,
    "sorted": lambda a, b, d: torch.sort(a, 1)[0], "constant": lambda a, b, d: a * b.detach(),
    "scan": lambda a, b, d: a.cumsum(1) * 0.3,
}


def program(seed: int, length: int):
    """A function of three square matrices, the last of which it writes to: (results to differentiate, other
    results)."""
    names = [pick(list(STEPS), random.Random(seed * 1000 + k)) for k in range(length)]

    def body(x, y, buffer):
        draw, values = random.Random(seed), [x, y]
        for name in names:
            value = STEPS[name](pick(values, draw), pick(values, draw), draw)
            assert square(value)
            values.append(value)
        buffer.mul_(0.5)
        buffer[:, 1].add_(values[-1].detach()[0])
        return sum(v.sum() * 0.1 for v in values[-2:]), values[-1], pick(values, draw).sum(1), buffer

    return names, body


def run(function, seed):
    generator = np.random.default_rng(seed)
    x, y, buffer = (torch.tensor(generator.standard_normal((SIZE, SIZE))) for _ in range(3))
    x.requires_grad_()
    y.requires_grad_()
    torch.manual_seed(seed)
    results = function(x, y, buffer)
    if results[0].requires_grad:
        results[0].backward()
    return [*results, buffer, x.grad, y.grad]


@pytest.mark.parametrize("seed", [*range(60), 168, 205])
def test_a_random_program(seed):
    names, body = program(seed, 3 + seed % 20)
    expected, found = run(body, seed), run(whole(body), seed)
    for k, (a, b) in enumerate(zip(expected, found)):
        if a is None:  # no way leads there; a program that has other results answers zeros
            assert b is None or not b.any()
        else:
            np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-7, atol=1e-9,
                                       err_msg=f"result {k} of {names}")
