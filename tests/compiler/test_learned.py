"""Per-machine autotuning: classes are recorded, measured once, kept on disk, and never change results."""
import json

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.core import cache, op
from rushlight._src.core.expr import size
from rushlight._src.core.settings import settings
from rushlight._src.devices.cpu import target
from rushlight._src.devices.cpu.llvm.jit import kind_and_sources
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
    target.learned.cache_clear()
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
        assert planner(*problem).steps


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
        (name, (found, _)), = json.loads(cache.get("met", kind_and_sources())).items()
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
    before = learned.results(plan(problem), operands, problem.dtype)[0]
    with settings.set(tune=True):
        forget()
        tuned = plan(problem)
    assert len(learned.answers()) == 1
    assert learned.results(tuned, operands, problem.dtype)[0] == before


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
        assert (abs(made) >= 2.0 ** -9).all() and (abs(made) < 256).all() and len(set(made)) > 60 and (made < 0).any()
        assert abs(made).max() > 16 * abs(made).min()


def test_only_options_that_keep_the_order_of_sums_are_tried():
    """Picks by the names that the planners give them: what divides sums or changes the kernel is never learned."""
    seen = {}
    for rows, dtype in ((4, "float32"), (90, "float32"), (90, "bfloat16"), (90, "float16")):
        problem = matmul._normalised(matmul.replace(PRODUCT, rows=rows, depth=1100, dtype=dtype, out_dtype=dtype))
        with tune.Ordered({}) as trial:
            matmul._plan(problem, NO_EPILOGUE, 2)
        seen.update(trial.seen)
    assert {"tile", "B packed once", "blocks a thread"} <= set(seen)
    assert not {"words along k", "numbers", "dots", "streams", "direct", "B streamed", "lanes"} & set(seen)


def test_a_choice_of_an_option_that_is_not_ordered_is_not_taken():
    with tune.Ordered({"words along k": "256"}):
        assert tune.pick("words along k", (512, 256)) == 512
    with tune.Ordered({"tile": "256"}):
        assert tune.pick("tile", (512, 256), True) == 256


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_sums_of_the_numbers_depend_on_their_order(dtype):
    kind = np.uint16 if dtype != "float32" else np.uint32
    made = np.zeros(4096, kind)
    learned.fill(np.random.default_rng(1), dtype, made.ctypes.data, made.nbytes)
    values = {"float32": lambda: made.view(np.float32), "float16": lambda: made.view(np.float16),
              "bfloat16": lambda: (made.astype(np.uint32) << 16).view(np.float32)}[dtype]().astype(np.float32)
    terms = values[:2048] * values[2048:]
    assert len({float(np.cumsum(order)[-1]) for order in (terms, terms[::-1], np.sort(terms))}) > 1


def test_what_takes_long_is_not_measured(monkeypatch):
    large = matmul.replace(PRODUCT, rows=3000, columns=3000, c=(3000, 1))
    monkeypatch.setattr(tune, "race", lambda *a: pytest.fail("measured"))
    with settings.set(tune=True):
        matmul.plan_matmul(large)
        monkeypatch.setattr(learned, "SECONDS", 0.0)  # no run is short enough
        matmul.plan_matmul(PRODUCT)
    assert list(learned.answers().values()) == [{}, {}]


def test_what_was_met_and_measured_goes_nowhere(monkeypatch):
    monkeypatch.setattr(tune, "race", raced(0.5))
    with settings.set(tune=True):
        matmul.plan_matmul(PRODUCT)
    learned.write_down()
    assert not {"met", "choices"} & {kind for kind, _ in cache.touched}


def test_plans_on_disk_follow_from_what_was_learned_since(monkeypatch):
    monkeypatch.setattr(tune, "race", raced(0.5))
    target.learned.cache_clear()
    before = target.learned()
    with settings.set(tune=True):
        matmul.plan_matmul(PRODUCT)
    assert target.learned() != before


def test_plans_that_have_learned_are_found_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(tune, "race", raced(0.5))
    x, w = torch.ones(83, 210), torch.ones(210, 75)
    found = []
    with settings.set(tune=True, store=True):
        for _ in range(2):  # as two processes: the second finds the plan
            op.forget()
            x @ w
            found.append(sorted((tmp_path / "plan").rglob("*/*")))
    assert learned.answers() and found[0] == found[1] != []
