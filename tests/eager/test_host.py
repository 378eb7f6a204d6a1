"""The host program that the log ``output`` shows is Python that runs, and computes what the compiled function does."""
import logging

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._src.core.random import default_generator

CASES = {
    "pointwise": (lambda x, y: (x + y).sin() * 2, [(4, 5), (4, 5)]),
    "contraction": (lambda x, y: F.gelu(x @ y.t()) + 1, [(33, 20), (17, 20)]),
    "several": (lambda x, y: (x.softmax(1), (x * y).sum(), x.t().contiguous()), [(6, 70), (6, 70)]),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1).relu().mean((2, 3)), [(2, 3, 8, 8), (4, 3, 3, 3)]),
    "sorting": (lambda x, y: (x + y).sort(1)[0], [(3, 9), (3, 9)]),
    "a number": (lambda x, y: (x * 2.5).clamp(min=0) - y, [(8,), (8,)]),
}


def programs_of(call, caplog):
    """The result of a call, and the sources of the host programs that it made."""
    log = logging.getLogger("rushlight.output")
    with caplog.at_level(logging.DEBUG, logger=log.name):
        caplog.clear()
        result = call()
    return result, [r.getMessage().split("\n", 1)[1] for r in caplog.records if r.name == log.name
                    and "def program(" in r.getMessage()]


def loaded(text):
    space = {}
    exec(text, space)
    return space["program"]


@pytest.mark.parametrize("name", CASES)
def test_the_text_computes_the_same(name, caplog):
    function, shapes = CASES[name]
    inputs = [torch.randn(*shape) for shape in shapes]
    compiled = torch.compile(function)
    wanted, texts = programs_of(lambda: compiled(*inputs), caplog)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    assert len(texts) == 1 and "launch = attached(" in texts[0]
    found = loaded(texts[0])(*inputs)
    assert len(found) == len(wanted) and all(torch.equal(a, b) for a, b in zip(found, wanted))


def test_backward_programs_and_random_numbers(caplog):
    x = torch.randn(6, 8, requires_grad=True)
    f = torch.compile(lambda x: F.dropout(x.sin(), 0.5).sum())
    seed, position = default_generator.place
    loss, (forward,) = programs_of(lambda: f(x), caplog)
    names = forward.split("def program(")[1].split(")")[0]
    assert "seed" in names or "s0" in names
    again = loaded(forward)(*[seed if n in ("s0", "seed0") else position if n in ("s1", "position0") else x.detach()
                              for n in names.split(", ")])
    assert torch.equal(again[0], loss.detach())
    _, backward = programs_of(loss.backward, caplog)
    assert any("def program(" in text for text in backward)


def test_an_index_out_of_range_is_reported(caplog):
    f = torch.compile(lambda x, i: x[i] + 1)
    x, i = torch.randn(5, 2), torch.tensor([0, 3])
    _, (text,) = programs_of(lambda: f(x, i), caplog)
    with pytest.raises(IndexError, match="out of range"):
        loaded(text)(x, torch.tensor([0, 9]))


def test_a_text_from_elsewhere_is_refused():
    from rushlight._src.devices.cpu.host import attached
    with pytest.raises(LookupError, match="no program 123456789"):
        attached(123456789)
