"""Functions below PyTorch's pipelines and its logger, which libraries import by their private names."""
import logging

import pytest
import torch

import rushlight as rl
from rushlight.distributed import c10d_logger
from rushlight.distributed.pipelining import _backward as ours

from torch.distributed.pipelining import _backward as theirs


def stage(library):
    x = library.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
    w, v = (library.linspace(0, k, 9).reshape(3, 3).requires_grad_() for k in (1, 2))
    y = library.tanh(x @ w)
    return x, (w, v), (y @ v, y.sum(), library.ones(2))


def gradients(library):
    return [library.full((2, 3), 2.0), library.tensor(3.0), None]


def numbers(values):
    return [None if v is None else v.flatten().tolist() for v in values]


@pytest.mark.parametrize("picked", [None, [0], [1, 0]])
def test_backward_of_a_stage(picked):
    found = []
    for library, module in ((torch, theirs), (rl, ours)):
        x, weights, outputs = stage(library)
        result = module.stage_backward(list(outputs), gradients(library), [x, 3, library.ones(1)], picked)
        found.append(numbers(result) + numbers(w.grad for w in weights) + [x.grad])
    for a, b in zip(*found):
        assert b == pytest.approx(a, rel=1e-5, abs=1e-6) if a is not None else b is None


def test_inputs_first_then_weights():
    found = []
    for library, module in ((torch, theirs), (rl, ours)):
        x, weights, outputs = stage(library)
        inputs, kept = module.stage_backward_input(list(outputs[:2]), gradients(library)[:2], [x], iter(weights))
        before = [w.grad for w in weights]
        module.stage_backward_weight(iter(weights), kept)
        assert before == [None, None]
        found.append(numbers(inputs) + numbers(w.grad for w in weights))
    for a, b in zip(*found):
        assert b == pytest.approx(a, rel=1e-5, abs=1e-6)


NO_HISTORY = "an output without a history"
CASES = {
    "scalar": (lambda t, y: [y.sum()], lambda t: [None]),
    "single tensor": (lambda t, y: y, lambda t: t.ones(2)),
    "dict": (lambda t, y: {"a": y, "b": 3}, lambda t: {"a": t.ones(2), "b": None}),
    "nested": (lambda t, y: [(y, y * 2), y.sum()], lambda t: ([t.ones(2), t.ones(2)], None)),
    "part without gradients": (lambda t, y: [(y, y * 2), y.sum()], lambda t: (None, t.tensor(2.0))),
    "no gradients": (lambda t, y: [y], lambda t: None),
    NO_HISTORY: (lambda t, y: [t.ones(2)], lambda t: [None]),
    "None for two elements": (lambda t, y: [y], lambda t: [None]),
    "more gradients": (lambda t, y: [y], lambda t: [t.ones(2), t.ones(2)]),
    "fewer gradients": (lambda t, y: [y, y], lambda t: [t.ones(2)]),
    "other shape": (lambda t, y: [y], lambda t: [t.ones(3)]),
    "other keys": (lambda t, y: {"a": y, "b": 3}, lambda t: {"a": t.ones(2)}),
    "other kind": (lambda t, y: [y], lambda t: {"a": t.ones(2)}),
    "number": (lambda t, y: [y], lambda t: [3]),
}


def outcome(call):
    """What a call gives, or the lines of its RuntimeError with the type of the cause."""
    try:
        return call()
    except RuntimeError as error:
        return [line.strip() for line in str(error).strip().splitlines()], type(error.__cause__)


def told(error):
    """The same for both libraries: the refinements of RuntimeError are that."""
    lines, cause = error
    return lines, RuntimeError if issubclass(cause, RuntimeError) else cause


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients_of_every_arrangement(case):
    outputs, given, found = *CASES[case], []
    for library, module in ((torch, theirs), (rl, ours)):
        x, w = (library.ones(2, requires_grad=True) for _ in range(2))
        found.append(outcome(lambda: numbers(module.stage_backward(outputs(library, x * w), given(library), [x]))
                             + numbers([w.grad])))
    assert found[0] == found[1] if isinstance(found[0], list) else told(found[0]) == told(found[1])


INPUTS = {
    "no gradients": (lambda t, x, w: [x * w, (x * w).sum()], lambda t: None),
    "scalar": (lambda t, x, w: [(x * w).sum()], lambda t: [None]),
    "more gradients": (lambda t, x, w: [x * w], lambda t: [t.ones(2), t.ones(2)]),
    NO_HISTORY: (lambda t, x, w: [t.ones(2), x * w], lambda t: [None, t.ones(2)]),
    "no history": (lambda t, x, w: [t.ones(2)], lambda t: [None]),
    "None for two elements": (lambda t, x, w: [x * w], lambda t: [None]),
    "other shape": (lambda t, x, w: [x * w], lambda t: [t.ones(3)]),
}


@pytest.mark.parametrize("case", INPUTS)
@pytest.mark.parametrize("wants", [True, False], ids=["wanted", "not wanted"])
def test_gradients_of_inputs_before_those_of_weights(case, wants):
    outputs, given, found = *INPUTS[case], []
    for library, module in ((torch, theirs), (rl, ours)):
        x, w = library.ones(2, requires_grad=wants), library.full((2,), 3.0, requires_grad=True)

        def both():
            inputs, kept = module.stage_backward_input(outputs(library, x, w), given(library), [x], iter([w]))
            module.stage_backward_weight(iter([w]), kept)
            return numbers([*inputs, x.grad, w.grad])

        found.append(outcome(both))
    assert found[0] == found[1] if isinstance(found[0], list) else told(found[0]) == told(found[1])


def test_calls_are_logged(caplog):
    @c10d_logger._exception_logger
    @c10d_logger._time_logger
    def halved(x):
        return 1 / x

    handler, lines = logging.Handler(), []
    handler.emit = lambda record: lines.append(record.getMessage())
    c10d_logger._c10d_logger.addHandler(handler)
    try:
        assert halved(2) == 0.5
        with pytest.raises(ZeroDivisionError):
            halved(0)
    finally:
        c10d_logger._c10d_logger.removeHandler(handler)
    assert "time_spent" in lines[0] and "division by zero" in lines[1] and "'func_name': 'halved'" in lines[1]
    assert not c10d_logger._c10d_logger.propagate
