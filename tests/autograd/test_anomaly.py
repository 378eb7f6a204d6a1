"""Anomaly detection."""
import warnings

import pytest

import rushlight as rl


def test_nan_names_the_step_and_its_forward_call():
    x = rl.zeros(2, requires_grad=True)
    with warnings.catch_warnings(record=True) as seen, pytest.raises(RuntimeError,
                                                                     match="Function 'SqrtBackward0' returned nan "
                                                                           "values in its 0th output"):
        warnings.simplefilter("always")
        with rl.autograd.detect_anomaly():
            y = x.sqrt() * 0
            y.sum().backward()
    assert any("Error detected in SqrtBackward0" in str(w.message) and "y = x.sqrt() * 0" in str(w.message)
               for w in seen)
    x.grad = None
    (x.sqrt() * 0).sum().backward()  # off again
    assert x.grad.isnan().all()


def test_an_error_in_backward():
    class Failing(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no gradient today")

    x = rl.ones(2, requires_grad=True)
    with rl.autograd.set_detect_anomaly(True), warnings.catch_warnings(record=True) as seen, pytest.raises(
            ValueError, match="today"):
        warnings.simplefilter("always")
        Failing.apply(x).sum().backward()
    assert any("Error detected in FailingBackward" in str(w.message) and "Failing.apply(x)" in str(w.message)
               for w in seen)


def test_values_that_are_fine():
    x = rl.ones(2, requires_grad=True)
    with rl.autograd.set_detect_anomaly(True, check_nan=False):
        (x * float("nan")).sum().backward()
    assert x.grad.isnan().all()
