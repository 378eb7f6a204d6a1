"""Small things that programs take from modules of PyTorch's, beside PyTorch."""
import importlib

import pytest
import torch as judge

import rushlight as torch

BOTH = (judge, torch)


def of(t, path):
    return importlib.import_module(f"{t.__name__}.{path}")


def outcome(f, t):
    try:
        return f(t)
    except Exception as error:  # noqa: BLE001 - compared
        return type(error).__name__, str(error)[:40]


def seen_twice(t):
    unique = of(t, "autograd.profiler").EnforceUnique()
    unique.see(1, 2)
    unique.see(1, 3)
    unique.see(1, 2)


def counted(t):
    steps = of(t, "autograd.profiler").KinetoStepTracker
    steps.init_step_count("a")
    start = steps.current_step()
    first = [steps.increment_step("a") - start, steps.increment_step("b") - start, steps.increment_step("b") - start]
    return [*first, steps.current_step() - start, steps.erase_step_count("a"), steps.erase_step_count("a"),
            steps.erase_step_count("b")]


def renamed(t):
    g, e = of(t, "export.graph_signature"), of(t, "export.exported_program")
    made = e.ModuleCallSignature([g.TensorArgument("x"), g.SymIntArgument("s")], [g.TokenArgument("x")], None, None)
    made.replace_all_uses_with(*(type("Node", (), {"name": n})() for n in ("x", "y")))
    return [a.name for a in (*made.inputs, *made.outputs)], e.ModuleCallEntry("a.b").signature


CALLS = [
    seen_twice, counted, renamed,
    lambda t: [(k.name, k.value) for kind in ("InputKind", "OutputKind")
               for k in getattr(of(t, "export.graph_signature"), kind)],
    lambda t: vars(of(t, "export.graph_signature").CustomObjArgument("a", "b")),
    lambda t: of(t, "nn.modules.rnn").apply_permutation(t.arange(4).reshape(2, 2), t.tensor([1, 0])).tolist(),
    lambda t: [of(t, "nn.utils.rnn").bind(None, len), of(t, "nn.utils.rnn").bind([1], len)],
    lambda t: issubclass(t.nn.utils.rnn.PackedSequence, t.nn.utils.rnn.PackedSequence_),
    lambda t: [round(of(t, "utils.benchmark.utils.common").trim_sigfig(*a), 8)
               for a in ((1234.5678, 3), (0.0012345, 2), (9.99, 1))],
    lambda t: [of(t, "utils.benchmark.utils.common").unit_to_english(u) for u in ("ns", "us", "ms", "s")],
    lambda t: of(t, "utils.benchmark.utils.common").ordered_unique([1, 2, 1]),
    lambda t: of(t, "random").thread_safe_generator(),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_as_pytorch_has_it(number):
    assert outcome(CALLS[number], torch) == outcome(CALLS[number], judge)


def test_random_numbers_of_the_module():
    for t in BOTH:
        random = of(t, "random")
        random.manual_seed(3)
        with random.fork_rng():
            t.rand(3)
        first = t.rand(3).tolist()
        random.manual_seed(3)
        assert t.rand(3).tolist() == first and t.random.manual_seed is random.manual_seed


def test_one_process_has_a_baton(tmp_path):
    for t in BOTH:
        kind = of(t, "utils.file_baton").FileBaton
        first, second = (kind(str(tmp_path / "lock"), 0.001) for _ in range(2))
        assert first.try_acquire() and not second.try_acquire()
        first.release()
        second.wait()
        assert second.try_acquire()
        second.release()


def test_threads_of_a_block():
    common = of(torch, "utils.benchmark.utils.common")
    before = torch.get_num_threads()
    with common.set_torch_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
