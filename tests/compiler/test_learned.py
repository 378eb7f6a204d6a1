"""Choices that a machine learns: classes are noted, measured once, kept on disk, and never change results."""
import json

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.core import cache
from rushlight._src.core.expr import size
from rushlight._src.core.settings import settings
from rushlight._src.devices.cpu.llvm.features import processor_kind
from rushlight._src.devices.cpu.templates import conv, learned, matmul, tune
from rushlight._src.devices.cpu.templates.contraction import NO_EPILOGUE

PRODUCT = matmul.Matmul((), 90, 70, 130, (130, 1), (1, 130), (70, 1), "float32", "float32")
CONVOLUTION = conv.Convolution(2, 20, 24, (1, 9, 9), (1, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 1, "float32")


@pytest.fixture(autouse=True)
def own_cache(tmp_path):
    """A cache of the test's own, and nothing known."""
    with settings.set(cache=str(tmp_path), tune=False):
        forget()
        yield
    forget()


def forget():
    learned.answers.cache_clear()
    learned._met.clear()
    tune.known.cache_clear()


def raced(gain):
    """In place of measuring: the second plan takes so many times as long."""
    return lambda plans, operands, seconds=0.1: [1.0, gain]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_problems_are_written_down_and_read(dtype):
    for plan in (lambda: matmul.plan_matmul(matmul.replace(PRODUCT, dtype=dtype, out_dtype=dtype)),
                 lambda: conv.plan_conv(conv.replace(CONVOLUTION, dtype=dtype))):
        forget()
        plan()
        (name, row), = learned._met.items()
        planner, problem, operands = learned.understood(json.loads(json.dumps(row)))
        assert tune.class_of(planner, problem) == name and sum(operands().values()) > 0
        assert planner.__wrapped__(*problem).steps


def test_problems_of_sizes_that_vary_are_not_noted():
    rows = size("rows")
    assert learned.spelled(matmul.plan_matmul, (matmul.replace(PRODUCT, rows=rows), 1, NO_EPILOGUE)) is None
    assert learned.spelled(matmul.plan_matmul, (rows,)) is None


def test_what_was_met_is_counted_over_processes():
    for count in (1, 2, 3):
        learned._met.clear()
        tune.known.cache_clear()
        matmul.plan_matmul(PRODUCT)
        learned.write_down()
        (name, (found, _)), = json.loads(cache.get("met", processor_kind())).items()
        assert found == count and "rows=128" in name


def test_a_choice_is_measured_once_and_taken(monkeypatch):
    matmul.plan_matmul(PRODUCT)
    learned.write_down()
    monkeypatch.setattr(tune, "race", raced(0.5))
    found = dict(learned.learn_all())
    assert len(found) == 1 and not list(learned.learn_all())
    forget()  # another process
    assert learned.answers() == found
    monkeypatch.setattr(tune, "race", lambda *a: pytest.fail("measured again"))
    matmul.plan_matmul(PRODUCT)
    assert not learned._met and not list(learned.learn_all())


@pytest.mark.parametrize("problem", [PRODUCT, matmul.replace(PRODUCT, dtype="bfloat16", out_dtype="bfloat16"),
                                     CONVOLUTION], ids=["product", "bfloat16", "convolution"])
def test_only_what_gives_the_same_results_is_chosen(problem, monkeypatch):
    monkeypatch.setattr(tune, "race", raced(0.5))  # every candidate seems to be faster
    plan = conv.plan_conv if problem is CONVOLUTION else matmul.plan_matmul
    operands = (conv.Operands(conv._three_dimensional(problem), NO_EPILOGUE) if problem is CONVOLUTION
                else matmul.Operands(matmul._normalised(problem), NO_EPILOGUE))()
    before = learned.results(plan(problem), operands, problem.dtype)
    with settings.set(tune=True):
        forget()
        tuned = plan(problem)
    assert len(learned.answers()) == 1
    assert learned.results(tuned, operands, problem.dtype) == before


def test_what_is_slower_is_not_chosen(monkeypatch):
    monkeypatch.setattr(tune, "race", raced(0.99))
    with settings.set(tune=True):
        matmul.plan_matmul(PRODUCT)
    assert list(learned.answers().values()) == [{}]


def test_operators_compute_the_same_under_the_setting():
    x, w = torch.randn(60, 200), torch.randn(90, 200)
    wanted = torch.nn.functional.linear(x, w).numpy()
    with settings.set(tune=True):
        forget()
        found = torch.compile(lambda x, w: torch.nn.functional.linear(x, w))(x, w)
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_numbers_that_fill_operands_are_moderate():
    for dtype, kind in (("float32", np.float32), ("float16", np.float16), ("float64", np.float64)):
        made = np.zeros(100, kind)
        learned.fill(np.random.default_rng(1), dtype, made.ctypes.data, made.nbytes)
        assert (abs(made) >= 0.5).all() and (abs(made) < 1).all() and len(set(made)) > 60 and (made < 0).any()
