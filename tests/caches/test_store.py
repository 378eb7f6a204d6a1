"""Plans on disk: another process finds them, and whatever decides how they come out leads to another entry."""
import os
import subprocess
import sys
import textwrap

import pytest

import rushlight as torch
from rushlight._src.core import cache
from rushlight._src.core.native.objects import CHOICE
from rushlight._src.core.settings import settings
from rushlight._src.eager import plan as plans
from rushlight._src.eager import store
from rushlight._src.graph import save
from rushlight._src.graph.graph import Graph
from rushlight._src.ops.reduce import vector_norm

PROGRAM = """
    import rushlight as torch, rushlight.nn as nn
    from rushlight._src.core.native.objects import PYTHON
    from rushlight._src.core.op import forget
    from rushlight._src.eager import plan as plans
    made, make = [], plans.make_plan
    def counting(op, *call):
        found = make(op, *call)
        if found.kind != PYTHON or found.around:
            made.append(op.name)
        return found
    plans.make_plan = counting
    for model, shape, size, compiled in {cases}:
        forget()  # as a process has it that runs this model alone
        made.clear()
        torch.manual_seed(0)
        model = eval(model)
        f = torch.compile(model) if compiled else model
        results = []
        for step in range(3):
            x = torch.arange(size).reshape(shape).float().div(50).requires_grad_()
            y = f(x)
            (y * y).sum().backward()
            results += [y.sum().item(), x.grad.abs().sum().item(),
                        *(p.grad.abs().sum().item() for p in model.parameters())]
        print(sum(results), len(made))
"""
MODELS = {
    "mlp": ("nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.5), nn.Linear(8, 3))", (5, 4),
            20),
    "convolutions": (
        "nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), "
        "nn.Linear(128, 2))", (2, 3, 8, 8), 384),
    "attention": ("nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)", (2, 5, 8), 80),
    "by NumPy": ("nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1), nn.Unflatten(1, (2, 2)))", (5, 4), 20),
}


def run(code, folder, **environment):
    """What a process prints, with a cache of its own."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True,
                          env={**os.environ, "RUSHLIGHT_CACHE": str(folder), "RUSHLIGHT_STORE": "1", **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_second_process_makes_no_plans_and_computes_the_same(tmp_path):
    program = PROGRAM.format(cases=[(*model, compiled) for model in MODELS.values() for compiled in (True, False)])
    first = run(program, tmp_path)
    assert len(first) == 4 * len(MODELS) and all(int(made) > 0 for made in first[1::4])  # compiled, each by itself
    second = run(program, tmp_path)
    assert second[::2] == first[::2] and set(second[1::2]) == {"0"}
    kernels = run(program, tmp_path, RUSHLIGHT_STORE="0")
    assert kernels[::2] == first[::2] and all(int(made) > 0 for made in kernels[1::4])


def test_threads_and_settings_lead_to_other_entries(tmp_path):
    program = PROGRAM.format(cases=[(*MODELS["mlp"], True)])
    run(program, tmp_path, RUSHLIGHT_NUM_THREADS="1")
    assert int(run(program, tmp_path, RUSHLIGHT_NUM_THREADS="2")[1]) > 0
    assert int(run(program, tmp_path, RUSHLIGHT_NUM_THREADS="1", RUSHLIGHT_KERNELS="0")[1]) > 0
    assert int(run(program, tmp_path, RUSHLIGHT_NUM_THREADS="1")[1]) == 0


def test_plans_from_disk_need_no_templates(tmp_path):
    program = """
        import sys, rushlight as torch
        torch.nn.Linear(3, 3)(torch.ones(2, 3)).sum().backward()
        print("rushlight._src.devices.cpu.claims" in sys.modules)
    """
    assert [run(program, tmp_path) for _ in range(2)] == [["True"], ["False"]]


def test_changed_source_is_computed_anew(tmp_path):
    program = ("import rushlight as torch; f = torch.compile(lambda x: {body}); "
               "print(f(torch.full((3,), 2.0)).sum().item())")
    assert run(program.format(body="x * x + 1"), tmp_path) == ["15.0"]
    assert run(program.format(body="x * x - 1"), tmp_path) == ["9.0"]
    assert run(program.format(body="x * x + 1"), tmp_path) == ["15.0"]


def test_processes_at_once(tmp_path):
    program = textwrap.dedent(PROGRAM.format(cases=[(*MODELS["mlp"], True)]))
    environment = {**os.environ, "RUSHLIGHT_CACHE": str(tmp_path), "RUSHLIGHT_STORE": "1"}
    workers = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment)
               for _ in range(3)]
    results = {worker.communicate()[0].split()[0] for worker in workers}
    assert len(results) == 1 and all(worker.returncode == 0 for worker in workers)
    assert run(program, tmp_path)[1] == "0"


# --- within one process -----------------------------------------------------------------------------------------------
@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    with settings.set(store=True):
        yield tmp_path


# plans for all sizes, too, of which tests before had many: they are asked before the disk
forget = torch._src.core.op.forget


def entries(folder):
    return [path for path in (folder / store.KIND).rglob("*") if path.is_file()]


@pytest.mark.parametrize("damage", [lambda b: b[:-3], lambda b: b"", lambda b: b[:40] + b"x" + b[41:]])
def test_damaged_entries_are_made_again_with_a_word(folder, damage, caplog):
    x = torch.ones(3)
    torch.nn.functional.gelu(x)
    for path in entries(folder):
        path.unlink()
    forget()
    expected = torch.nn.functional.gelu(x).tolist()
    paths = entries(folder)
    whole = [path.read_bytes() for path in paths]
    for path in paths:
        path.write_bytes(damage(path.read_bytes()))
    forget()
    with caplog.at_level("WARNING", "rushlight.cache"):
        assert torch.nn.functional.gelu(x).tolist() == expected
    assert "damaged" in caplog.text
    assert sorted(path.read_bytes() for path in entries(folder)) == sorted(whole)


def test_entry_that_is_no_plan_is_made_again(folder, caplog):
    x = torch.ones(3)
    forget()
    name = store.entry(torch._src.core.op.OPS["exp"], (x._rush_meta, None, 0))
    cache.put(store.KIND, name, b"something else")
    with caplog.at_level("WARNING", "rushlight.cache"):
        assert torch.exp(x)[0].item() == pytest.approx(2.718281828)
    assert "made again" in caplog.text


def test_evicted_kernels_are_compiled_again_without_a_warning(folder, caplog):
    """Trimming removes a kernel and leaves a plan that refers to it: the plan is made again, and nothing was wrong."""
    from rushlight._src.devices.cpu.llvm import jit

    x = torch.ones(3)
    forget()
    jit.forget()
    expected = torch.sinh(x).tolist()
    for path in (folder / "object").rglob("*"):
        if path.is_file():
            path.unlink()
    forget()
    jit.forget()
    with caplog.at_level("INFO", "rushlight.cache"):
        assert torch.sinh(x).tolist() == expected
    again = [record for record in caplog.records if "made again" in record.getMessage()]
    assert {record.levelname for record in again} == {"INFO"}


def test_users_operators_are_not_stored(folder):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    f = torch.compile(lambda x: Double.apply(x) + 1)
    x = torch.ones(2, requires_grad=True)
    f(x).sum().backward()
    assert x.grad.tolist() == [3, 3]
    from rushlight._src.capture import backends
    for operator in backends.operators.values():
        assert "Double" not in str(getattr(operator, "traits", {}).get("derived"))


def test_gradients_of_gradients_come_from_the_store(folder):
    def second():
        forget()
        x = torch.tensor([0.3, -0.7], requires_grad=True)
        g, = torch.autograd.grad(torch.nn.functional.gelu(x).sum(), x, create_graph=True)
        return torch.autograd.grad(g.sum(), x)[0].tolist()

    assert second() == second()


def test_plans_of_one_key_have_backward_programs_of_their_own(folder):
    """The order of a norm is a run-time scalar after some calls, and the form of its gradient depends on it."""
    for order in (2.0, 1.0, float("inf"), 2.0, 1.0, 3.0, 1.0, float("inf"), 2.0):
        x = torch.tensor([[3.0, -1.0], [4.0, 2.0]], requires_grad=True)
        torch.linalg.vector_norm(x, order, 0).backward(torch.tensor([5.0, 10.0]))
        wanted = {2.0: [[3.0, -10 / 5 ** 0.5], [4.0, 20 / 5 ** 0.5]], 1.0: [[5.0, -10.0], [5.0, 10.0]],
                  float("inf"): [[0.0, 0.0], [5.0, 10.0]],
                  3.0: [[45 / 91 ** (2 / 3), -10 / 9 ** (2 / 3)], [80 / 91 ** (2 / 3), 40 / 9 ** (2 / 3)]]}[order]
        assert torch.allclose(x.grad, torch.tensor(wanted)), order
    plans_of_keys = [found.function.known for found in vector_norm.plans.values() if found.large == CHOICE]
    known = [plan.derived.traits["identity"] for alternatives in plans_of_keys for _, plan in alternatives
             if plan.derived]
    assert len(known) > 2 and len(set(known)) == len(known)


def test_text_tells_values_apart():
    values = [1, 1.0, True, "1", None, (1,), [1], ((1,),), 0.0, -0.0, float, int, torch.float32, torch.float64,
              slice(1), torch.device("cpu"),
              torch.ones(2)._rush_meta, torch.ones(2, 1)._rush_meta, torch.ones(1, 2)._rush_meta, {"a": 1},
              torch._src.core.op.OPS["exp"]]
    assert len(set(map(save.text_of, values))) == len(values)
    with pytest.raises(save.Unsaveable):
        save.text_of(lambda: 0)


def test_graphs_survive_saving():
    trace = plans.Recording()
    with trace:
        x = trace.input(torch.ones(2, 3)._rush_meta)
        y = torch.nn.functional.softmax(x, -1)
        z = torch.cat([y, x])
    graph = Graph(trace.inputs, trace.nodes, [z.node])
    again = save.load(save.save(graph))
    assert str(again) == str(graph)
    assert save.fingerprint(again) == save.fingerprint(graph)
    values = [torch.ones(2, 3)]
    assert again.run(values)[0].tolist() == graph.run(values)[0].tolist()


def test_equal_modules_compiled_one_by_one_share_their_code():
    torch.compiler.reset()
    layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(5))
    compiled = [torch.compile(layer) for layer in layers]
    x = torch.ones(2, 4)
    for layer, fast in zip(layers, compiled):
        assert (fast(x) - layer(x)).abs().max().item() < 1e-6
    from rushlight._src.capture import backends
    assert len(backends.operators) == 1


def test_artifacts_carry_everything_to_an_empty_cache(tmp_path):
    program = textwrap.dedent(PROGRAM.format(cases=[(*MODELS["mlp"], True)]))
    saving = program + ("\ndata, info = torch.compiler.save_cache_artifacts()\n"
                        f"open({str(tmp_path / 'artifacts')!r}, 'wb').write(data)\n"
                        "assert info.artifacts['plan']")
    first = run(saving, tmp_path / "one")
    loading = (f"import rushlight; rushlight.compiler.load_cache_artifacts(open({str(tmp_path / 'artifacts')!r}, "
               "'rb').read())\n" + program)
    assert run(loading, tmp_path / "two") == [first[0], "0"]


def test_measured_choices_have_entries_of_their_own(folder):
    call = torch._src.core.op.OPS["exp"], (torch.ones(3)._rush_meta, None, 0)
    plain = store.entry(*call)
    with settings.set(max_autotune=True):
        assert store.entry(*call) != plain
    assert store.entry(*call) == plain


def test_other_bytes_are_no_artifacts(folder):
    for data in (b"abc", b"x" * 200):
        with pytest.raises(ValueError, match="not cache artifacts"):
            torch.compiler.load_cache_artifacts(data)
