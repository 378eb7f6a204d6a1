"""What profilers see of a training step: names, nesting, shapes, memory, operations; schedules; what they write."""
import gzip
import json

import pytest
import torch as judge

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.profiler import (ProfilerAction, ProfilerActivity, profile, record_function, schedule,
                                tensorboard_trace_handler)
from rushlight.utils.flop_counter import FlopCounterMode


@pytest.fixture
def prof():
    model, x = torch.nn.Linear(4, 3), torch.randn(5, 4)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True,
                 with_flops=True) as prof:
        with record_function("forward"):
            loss = F.gelu(model(x)).sum()
        loss.backward()
    return prof


def test_events_nest_and_add_up(prof):
    events = {e.name: e for e in prof.events()}
    assert {"forward", "aten::linear", "aten::gelu", "aten::sum", "aten::linear_backward",
            "aten::gelu_backward"} <= set(events)
    forward = events["forward"]
    assert events["aten::linear"].cpu_parent is forward and events["aten::linear_backward"].cpu_parent is None
    assert forward.cpu_time_total >= sum(c.cpu_time_total
                                         for c in forward.cpu_children) > 0 and forward.self_cpu_time_total >= 0
    assert events["aten::linear"].input_shapes[:2] == [[5, 4], [3, 4]] and events["aten::linear"].flops == 2 * 5 * 4 * 3
    assert events["aten::linear"].cpu_memory_usage >= 60 and forward.cpu_memory_usage >= 120
    assert "test_profile.py" in events["aten::gelu"].stack[0]


def test_the_table(prof):
    table = prof.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total", row_limit=3)
    lines = table.splitlines()
    assert all(name in lines[1] for name in ("Name", "Self CPU %", "CPU total", "# of Calls", "CPU Mem", "Input Shapes",
                                             "MFLOPs", "Source Location"))
    assert len(lines) == 8 and lines[-1].startswith("Self CPU time total: ")
    with pytest.raises(AssertionError, match="cannot sort by 'nothing'"):
        prof.key_averages().table(sort_by="nothing")


def test_traces_on_disk(prof, tmp_path):
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    prof.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    prof.export_stacks(str(tmp_path / "stacks.txt"), "cpu_time_total")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace == json.loads(gzip.open(tmp_path / "trace.json.gz").read())
    linear = next(e for e in trace["traceEvents"] if e["name"] == "aten::linear")
    assert linear["ph"] == "X" and linear["dur"] > 0 and linear["args"]["Input Dims"][0] == [5, 4]
    assert "test_profile.py" in (tmp_path / "stacks.txt").read_text()


def test_results_are_the_same_and_nothing_stays_behind():
    x = torch.randn(3, 3, requires_grad=True)
    f = torch.compile(lambda x: (x @ x).relu().sum())
    with profile() as prof:
        f(x).backward()
    grad, x.grad = x.grad, None
    (x @ x).relu().sum().backward()
    assert torch.allclose(grad, x.grad) and {"CompiledFunction",
                                             "CompiledFunctionBackward"} <= {e.key for e in prof.key_averages()}
    from rushlight._src.core.interpret import active
    from rushlight.profiler import _recorders
    assert not active() and not _recorders


def test_an_error_leaves_nothing_behind():
    from rushlight._src.core.interpret import active
    with pytest.raises(RuntimeError), profile() as prof:
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert not active() and [e.name for e in prof.events()][-1] == "aten::matmul"


@pytest.mark.parametrize("options", [dict(wait=1, warmup=1, active=2), dict(wait=0, warmup=0, active=1, repeat=2),
                                     dict(wait=2, warmup=0, active=2, repeat=1, skip_first=3)])
def test_schedules_as_the_judge_has_them(options):
    ours, theirs = schedule(**options), judge.profiler.schedule(**options)
    assert [ours(k).name for k in range(20)] == [theirs(k).name for k in range(20)]


def test_steps(tmp_path):
    ready = []
    with profile(schedule=schedule(wait=1, warmup=1, active=2),
                 on_trace_ready=lambda p: ready.append([e.name for e in p.events() if "::_" not in e.name])) as prof:
        for _ in range(8):
            torch.ones(2) + 1
            prof.step()
    assert ready == [["ProfilerStep#2", "aten::ones", "aten::add", "ProfilerStep#3", "aten::ones", "aten::add"],
                     ["ProfilerStep#6", "aten::ones", "aten::add", "ProfilerStep#7", "aten::ones", "aten::add"]]
    assert prof.action is ProfilerAction.NONE
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path), "me")):
        torch.ones(1)
    (written,) = tmp_path.iterdir()
    assert written.name.startswith("me.") and written.name.endswith(".pt.trace.json")
    with pytest.raises(AssertionError, match="active=0"):
        schedule(wait=0, warmup=0, active=0)
    with pytest.raises(AssertionError, match="recorded nothing"):
        profile().key_averages()


def test_the_older_name():
    from rushlight.autograd import profiler
    with profiler.profile() as prof:
        with profiler.record_function("mine"):
            torch.ones(1)
    assert "mine" in prof.table()
    with profiler.profile(enabled=False):
        torch.ones(1)


def counted(library, counter):
    """Operations of a model's forward and backward in either framework."""
    nn = library.nn
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.Flatten(),
                          nn.Linear(8 * 3 * 3, 10))
    x = library.ones(2, 3, 8, 8)
    with counter(display=False) as count:
        y = model(x).sum()
        forward = count.get_total_flops()
        y.backward()
    return forward, count.get_total_flops()


def test_operations_as_the_judge_counts_them():
    from torch.utils.flop_counter import FlopCounterMode as Theirs
    assert counted(torch, FlopCounterMode) == counted(judge, Theirs)


def test_operations_of_attention_and_by_module():
    q = torch.ones(2, 4, 16, 8, requires_grad=True)
    with FlopCounterMode(display=False) as count:
        y = F.scaled_dot_product_attention(q, q, q)
        assert count.get_total_flops() == 2 * (2 * 2 * 4 * 16 * 16 * 8)
        y.sum().backward()
    assert count.get_total_flops() == 7 * (2 * 2 * 4 * 16 * 16 * 8)  # the backward computes scores again
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 4))
    counter = FlopCounterMode(display=False)
    with counter:
        model(torch.ones(1, 2))
    counts = counter.get_flop_counts()
    assert sum(counts["Sequential.1"].values()) == 24 and sum(counts["Sequential"]
                                                              .values()) == 36 and "Sequential.0" in counter.get_table()
    with counter:
        torch.compile(model)(torch.ones(1, 2))
    assert counter.get_total_flops() == 36
