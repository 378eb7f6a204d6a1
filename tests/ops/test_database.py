"""Every differentiable entry of PyTorch's operator database, in float64: second derivatives, pushed forward, mapped,
and gradients mapped.

Programs run by their NumPy reference implementation: these tests are about the rules of derivatives and of batches,
not the kernels.
"""
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's database wants it

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import rushlight as rl  # noqa: E402
from rushlight import func  # noqa: E402

from .database import Entry, by_meaning, draw, function, title  # noqa: E402, F401

pytestmark = pytest.mark.sampled  # all cases with `-m long`

STEP = 1e-6
RANDOM = {"normal", "bernoulli", "multinomial", "cauchy", "exponential", "geometric", "log_normal", "uniform",
          "rand_like", "randn_like", "svd_lowrank", "pca_lowrank",
          "nn.functional.multi_head_attention_forward", "empty_like", "new_empty", "new_empty_strided", "empty",
          "empty_strided", "empty_permuted", "resize_", "resize_as_",
          "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d"}
OTHERWISE = {"linalg.pinv.singular": "of a product of its samples",
             "linalg.norm.subgradients_at_zero": "where it has no second derivative", "to_sparse": "tests/sparse",
             "cholesky_inverse": "its samples are prepared by functions of PyTorch"}
NOT_SMOOTH = {"bfloat16": "it rounds", "half": "it rounds",
              "nn.functional.cosine_embedding_loss": "its targets are numbers that must not change"}
WRITTEN_TWICE = dict.fromkeys(
    ("nn.functional.max_unpool1d", "nn.functional.max_unpool2d", "nn.functional.max_unpool3d"),
    "its samples name a position twice: the tangent of the element that stays counts, each gets a gradient, as in "
    "PyTorch")
NOT_HERE = {"as_strided": "it sees memory, not elements", "as_strided_copy": "it sees memory, not elements"}
KEEPS_STATISTICS = "it writes running statistics that are not its own"


def differentiable(info):
    return info.supports_autograd and torch.float64 in info.supported_backward_dtypes(
        "cpu") and info.name not in RANDOM and "dropout" not in info.name


ENTRIES = [Entry(info) for info in op_db if differentiable(info) and function(info.name) is not None
           and title(info) not in OTHERWISE]
each_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: title(e.info))


class Case:
    """An entry's function at its sample, with what its derivatives are taken along."""

    def __init__(self, entry):
        if entry.sample is None:
            pytest.skip("no small sample with a counterpart")
        self.run, self.values = entry.function()
        outputs = self.run(*(x.clone().requires_grad_() for x in self.values))
        self.live = [k for k, y in enumerate(outputs) if y.requires_grad]
        if not self.live:
            pytest.skip("no derivative")
        generator = np.random.default_rng(0)
        self.cotangents = [draw(outputs[k], generator) for k in self.live]
        self.tangents, self.others = ([draw(x, generator) for x in self.values] for _ in range(2))

    def slopes(self, values, create_graph=False):
        values = values if create_graph else [x.clone().requires_grad_() for x in values]
        outputs = self.run(*values)
        return rl.autograd.grad([outputs[k] for k in self.live], values, self.cotangents, create_graph=create_graph,
                                allow_unused=True)


def dot(a, b):
    """The inner product, but for what is not a number (of rows that a mask leaves nothing of)."""
    return sum(float((x * y).nansum()) for x, y in zip(a, b) if x is not None)


def agree(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.detach().double().numpy(), b.detach().double().numpy(), rtol=1e-6, atol=1e-8)


@each_entry
def test_second_derivative(entry):
    """Along one direction, against the difference of gradients."""
    if entry.info.name in NOT_SMOOTH:
        pytest.skip(NOT_SMOOTH[entry.info.name])
    case = Case(entry)
    values = [x.clone().requires_grad_() for x in case.values]
    slopes = case.slopes(values, create_graph=True)
    weighed = [(g * v).sum() for g, v in zip(slopes, case.others) if g is not None and g.requires_grad]
    try:
        found = dot(rl.autograd.grad(sum(weighed), values, allow_unused=True), case.tangents) if weighed else 0.0
    except NotImplementedError as error:
        assert "ctc_backward" in str(error)  # which has none in PyTorch either
        return
    above, below = (case.slopes([x + sign * STEP * t for x, t in zip(case.values, case.tangents)]) for sign in (1, -1))
    wanted = (dot(above, case.others) - dot(below, case.others)) / (2 * STEP)
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-4)


@each_entry
def test_pushed_forward(entry):
    """The tangent along a direction, weighed, is the gradient along it."""
    if entry.info.name in NOT_SMOOTH or entry.info.name in WRITTEN_TWICE:
        pytest.skip((NOT_SMOOTH | WRITTEN_TWICE)[entry.info.name])
    case = Case(entry)
    try:
        _, pushed = func.jvp(case.run, tuple(case.values), tuple(case.tangents))
    except (NotImplementedError, RuntimeError) as error:
        assert "ctc_backward" in str(error) or "from outside of it" in str(error)
        pytest.skip(KEEPS_STATISTICS)
    forward = dot(case.cotangents, [pushed[k] for k in case.live])
    assert forward == pytest.approx(dot(case.slopes(case.values), case.tangents), rel=1e-6, abs=1e-8)


def mapped_is_a_loop(transformed, case):
    stacked = [rl.stack([x, x * 1.01]) for x in case.values]
    try:
        got = func.vmap(transformed)(*stacked)
    except RuntimeError as error:
        assert any(text in str(error) for text in ("write", "mutate", "reads the elements")), error
        pytest.skip(KEEPS_STATISTICS)
    agree(got, [rl.stack(list(r)) for r in zip(*(transformed(*(s[k].clone() for s in stacked)) for k in range(2)))])


@each_entry
def test_mapped(entry):
    if entry.info.name in NOT_HERE:
        pytest.skip(NOT_HERE[entry.info.name])
    case = Case(entry)
    mapped_is_a_loop(case.run, case)


@each_entry
def test_gradients_mapped(entry):
    case = Case(entry)

    def loss(*values):
        outputs = case.run(*values)
        return sum((outputs[k] ** 2).sum() for k in case.live)

    mapped_is_a_loop(func.grad(loss, argnums=tuple(range(len(case.values)))), case)
