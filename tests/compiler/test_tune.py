"""max-autotune: choices are measured, kept on disk, and never change results."""

import gc
import json
import threading
from dataclasses import replace

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.devices.cpu.llvm import pool
from rushlight._src.devices.cpu.templates import tune
from rushlight._src.devices.cpu.templates.contraction import Contraction, NO_EPILOGUE
from rushlight._src.devices.cpu.templates.conv import Convolution, plan_conv
from rushlight._src.devices.cpu.templates.matmul import Matmul, _plan, plan_matmul
from rushlight._src.core.settings import settings

pytestmark = pytest.mark.processor


def test_a_plan_asks_and_a_trial_answers():
    assert tune.pick("x", [3, 4]) == 3
    with tune.Trial({"x": "4", "z": "9"}) as trial:
        assert tune.pick("x", [3, 4]) == 4 and tune.pick("y", [5, 5]) == 5 and tune.pick("z", [3, 4]) == 3
    assert trial.seen == {"x": ["3", "4"], "y": ["5"], "z": ["3", "4"]}


def test_a_trial_is_its_own_thread_s():
    """Another thread that plans meanwhile picks by itself, and its own trials end in any order."""
    def elsewhere(function):
        seen = []
        other = threading.Thread(target=lambda: seen.append(function()))
        other.start()
        other.join()
        return seen[0]

    with tune.Trial({"x": "4"}) as trial:
        assert elsewhere(lambda: tune.pick("x", [3, 4])) == 3 and not trial.seen
        left = elsewhere(lambda: tune.Trial({"x": "3"}).__enter__())  # still under way there
        assert tune.pick("x", [3, 4]) == 4 and trial.seen and not left.seen
        # a problem that is planned as a whole asks no trial of another thread
        assert elsewhere(lambda: tune.planned(lambda kept: tune.pick("x", [3, 4]), (1,), dict)) == 3


def matmul(rows, columns, depth):
    return Matmul((), rows, columns, depth, (depth, 1), (columns, 1), (columns, 1), "float32", "float32")


def test_a_table_tells_what_was_measured_for_a_class(monkeypatch):
    name = tune.class_of(_plan, (matmul(200, 300, 500), NO_EPILOGUE, 1))
    assert name == tune.class_of(_plan, (matmul(256, 257, 257), None, 1))
    assert name != tune.class_of(_plan, (matmul(257, 300, 500), None, 1))
    # what computes an operand does not count
    computed = replace(matmul(200, 300, 500), a_parts=((500, 1, 0), (0, 1, 0)))
    assert name == tune.class_of(_plan, (computed, NO_EPILOGUE, 1))
    monkeypatch.setattr(pool, "get_num_threads", lambda: 1)

    def slots(*sizes):
        tune.known.cache_clear()
        return [[slot for slot in step.slots if slot[0] != "pointer"] for step in plan_matmul(matmul(*sizes)).steps]

    monkeypatch.setattr(tune, "measured", dict)
    plain, other = slots(200, 300, 500), slots(300, 300, 500)
    monkeypatch.setattr(tune, "measured", lambda: {name: {"words along k": "256", "tile": "none of them"}})
    assert slots(200, 300, 500) != plain and slots(300, 300, 500) == other


def test_the_table_is_well_formed():
    lines = tune.TABLE.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(lines) and len({tuple(line.split(" | ")[:2]) for line in lines}) == len(lines)
    assert all(isinstance(json.loads(line.split(" | ")[2]), dict) for line in lines)


@pytest.mark.parametrize("model, shape", [
    (lambda: torch.nn.Sequential(torch.nn.Linear(96, 130), torch.nn.GELU(), torch.nn.Linear(130, 40)), (70, 96)),
    # a product with what follows it
    (lambda: torch.nn.Sequential(torch.nn.Conv2d(64, 128, 1), torch.nn.ReLU()), (2, 64, 40, 40)),
    (lambda: torch.nn.Sequential(torch.nn.Conv2d(5, 12, 3, padding=1), torch.nn.ReLU(),
                                 torch.nn.Conv2d(12, 8, 1, stride=2)), (3, 5, 13, 13))])
def test_tuned_programs_mean_the_same(model, shape, tmp_path):
    torch.manual_seed(0)
    model, x = model(), torch.randn(*shape)
    plain = model(x)
    plain.square().sum().backward()
    wanted = [plain.detach().numpy(), *(p.grad.numpy().copy() for p in model.parameters())]
    model.zero_grad()
    tune.tuned.cache_clear()
    with settings.set(cache=str(tmp_path)):
        out = torch.compile(model, mode="max-autotune")(x)
        out.square().sum().backward()
        assert list((tmp_path / "autotune").rglob("*/*"))
    for a, b in zip([out.detach().numpy(), *(p.grad.numpy() for p in model.parameters())], wanted):
        np.testing.assert_allclose(a, b, atol=1e-4 * max(1, np.abs(b).max()))


def test_what_was_measured_is_not_measured_again(tmp_path, monkeypatch):
    torch.manual_seed(0)
    f, x, w = lambda: torch.compile(lambda a, b: a @ b, mode="max-autotune"), torch.randn(48, 56), torch.randn(56, 50)
    with settings.set(cache=str(tmp_path)):
        tune.tuned.cache_clear()
        first = f()(x, w)
        tune.tuned.cache_clear()
        monkeypatch.setattr(tune, "race", lambda *arguments: pytest.fail("measured again"))
        assert torch.equal(f()(x, w), first)


@pytest.mark.parametrize("call", [
    lambda k: torch.ones(k + 2, 3) @ torch.ones(3, 8),
    lambda k: plan_conv(Convolution(1, 4, 5, (k + 3,), (3,), (1,), (0,), (1,)))], ids=["product", "convolution"])
def test_plans_of_ever_more_sizes_are_forgotten(call):
    def plans(sizes):
        for k in sizes:
            call(k)
        gc.collect()
        return sum(type(one) is Contraction for one in gc.get_objects())

    tune.known.cache_clear()
    before = plans(())
    first, later = plans(range(tune.MOST_PLANS + 50)), plans(range(tune.MOST_PLANS + 50, tune.MOST_PLANS + 350))
    assert before < first >= later


def test_plans_share_the_constants_that_most_of_them_have():
    first, second = (dict.fromkeys(slot for step in plan_matmul(matmul(rows, 30, 50)).steps for slot in step.slots
                                   if slot[0] == "const" and slot[1] in range(100)) for rows in (3000, 3001))
    common = first.keys() & second.keys()  # the rest of the rows differs
    shared = [{id(slot) for slot in one if slot in common} for one in (first, second)]
    assert len(common) > 4 and shared[0] == shared[1]


@pytest.mark.parametrize("how, text", [
    ({"mode": "fastest"}, "Unrecognized mode=fastest"),
    ({"mode": "default", "options": {}}, "can't be specified at the same time"),
    ({"options": {"speed": 9}}, "Unexpected optimization option speed"),
    ({"options": {"max_autotune": 3}}, "Unexpected type of attr max_autotune")])
def test_modes_and_options_that_there_are_not(how, text):
    with pytest.raises(RuntimeError, match=text):
        torch.compile(lambda x: x, **how)
