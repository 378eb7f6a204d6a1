"""Plans for all sizes at once: the same results as plans for one size, and no new plan for a new size."""
import random

import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.expr import Expr
from rushlight._src.core.meta import Meta
from rushlight._src.core.op import OPS
from rushlight._src.core.op import forget as forget_plans
from rushlight._src.core.settings import settings
from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.eager import polymorphic, store
from tests.ops.test_every_form import IDS, results, same
from tests.ops.test_samples import SAMPLED, arguments

nn, F = rl.nn, rl.nn.functional


def grown(value):
    """A key, of which every size of a tensor was one less."""
    if type(value) is Meta:
        shape = tuple(n + (n > 1) for n in value.shape)
        if value.contiguous:
            return Meta.of(shape, value.dtype, value.device)
        return Meta(shape, tuple(s + 1 if s > 1 else s for s in value.strides), value.dtype, value.device)
    return tuple(map(grown, value)) if type(value) is tuple else value


@pytest.fixture
def forget():
    """No operator has a plan, nor knows earlier calls and their numbers, nor finds plans on disk."""
    with settings.set(store=False):
        forget_plans()
        for op in OPS.values():
            known = op.caches.pop("experience", None)
            if known is not None and known.learned:
                op.scalars &= ~sum(1 << place for place in known.learned)
                op.masks = {}
        yield forget_plans
        forget_plans()


@pytest.fixture
def forced(forget, monkeypatch):
    """Every size of every call is a symbol."""
    told = polymorphic.PendingCall.symbols

    def symbols(call):
        found = told(call)
        if not isinstance(found, polymorphic.DeclaredSymbols):
            found = polymorphic.InferredSymbols(call.key, grown(call.key))
        return found if isinstance(found, polymorphic.DeclaredSymbols) or found.found else None

    def checked(op, key, args, served=polymorphic.served):
        plan = served(op, key, args)
        if plan is not None:
            alike(plan, polymorphic.PendingCall(op, key, args).plan()[0])
        return plan

    def force():
        forget()
        monkeypatch.setattr(polymorphic.PendingCall, "symbols", symbols)
        monkeypatch.setattr(polymorphic, "SETTLED", 0)
        monkeypatch.setattr(polymorphic, "served", checked)

    return force


def steps(plan, outline):
    """The steps of a plan's program, without where temporaries lie."""
    words, at, found = list(plan.code_owner.block), 1, []
    arena = len(outline.given) + len(outline.outputs) if plan.temporaries else None
    for _ in range(words[0]):
        count = words[at + 3]
        slots = zip(words[at + 4:at + 4 + 2 * count:2], words[at + 5:at + 5 + 2 * count:2])
        found.append((*words[at:at + 3], [(value, offset) if value != arena else "arena" for value, offset in slots]))
        at += 4 + 2 * count
    return found


def alike(filled, settled):
    """A plan made by substitution of sizes equals one made for them; its templates always have an arena."""
    for field in {*store.FIELDS, "op", "derived", "donating"} - {"temporaries", "inside", "reused"}:
        assert getattr(filled, field) == getattr(settled, field), field
    if filled.code and len(filled.temporaries) == len(settled.temporaries):
        outline, _ = filled.code_owner.keep
        assert steps(filled, outline) == steps(settled, outline)


def enlarged(value):
    """An array with one more element along each dimension, from the same numbers."""
    if isinstance(value, np.ndarray):
        return np.resize(value, tuple(n + (n > 1) for n in value.shape))
    return list(map(enlarged, value)) if isinstance(value, list) else value


@pytest.mark.sampled
@pytest.mark.parametrize("name,index", SAMPLED, ids=IDS)
def test_results_and_gradients_are_those_of_single_sizes(name, index, forget, forced):
    sample = OPS[name].traits["samples"][index]
    given = [arguments(name, sample)]
    given.append(list(map(enlarged, given[0])))
    wanted = []
    for values in given:
        try:
            wanted.append(results(name, sample, values, rl.tensor))
        except Exception:  # noqa: BLE001 - no derivative, or the sample allows no other size
            break
    forced()
    for values, expected in zip(given, wanted):
        for got, own in zip(results(name, sample, values, rl.tensor), expected):
            same(got, own, rtol=1e-7)


def plans_made(monkeypatch, run):
    """How many calls were planned for themselves, and how many by a polymorphic plan, in ``run``."""
    counts = [0, 0]
    settle = polymorphic.PendingCall.plan

    def counted(call):
        found = settle(call)
        counts[found is not None] += 1
        return found

    with monkeypatch.context() as patch:
        patch.setattr(polymorphic.PendingCall, "plan", counted)
        run()
    return counts


class Block(nn.Module):
    def __init__(self, d=16, heads=2):
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
        self.qkv, self.o, self.f1, self.f2 = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(
            4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, d // self.heads).transpose(1, 2) for z in self.qkv(self.n1(x)).split(d, 2))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.f2(F.gelu(self.f1(self.n2(x))))


def gradients(model, run, x):
    model.zero_grad()
    loss = run(x).square().mean()
    loss.backward()
    return [loss.detach().numpy(), *(p.grad.numpy().copy() for p in model.parameters())]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_transformer_block_is_planned_once_for_all_lengths(compiled, forget, monkeypatch):
    rl.manual_seed(0)
    model = Block()
    run = rl.compile(model) if compiled else model
    inputs = {n: rl.randn(2, n, 16) for n in (5, 6, 7, 9, 11, 12, 13, 30, 31)}
    for n in (5, 6, 7, 9, 11):
        gradients(model, run, inputs[n])
    found = {}

    def further():
        for n in (12, 13, 30, 31):
            found[n] = gradients(model, run, inputs[n])

    own, shared = plans_made(monkeypatch, further)
    assert own == 0 and shared > 0
    forget()
    for n, got in found.items():
        for a, b in zip(got, gradients(model, model, inputs[n])):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_plans_for_all_sizes_are_dropped_with_the_default_dtype(forget):
    halves = [rl.arange(n) / 2 for n in range(5, 20)]
    rl.set_default_dtype(rl.float64)
    try:
        assert {(rl.arange(n) / 2).dtype for n in range(5, 30)} == {rl.float64}
    finally:
        rl.set_default_dtype(rl.float32)
    assert {half.dtype for half in halves} == {rl.float32}


def test_conditions_on_sizes_lead_to_other_plans(forget):
    """Sizes for which a decision comes out otherwise are not served by a polymorphic plan that rests on it."""
    def body(x):
        return x.sum() if x.shape[0] % 2 else x.mean()

    operator = polymorphic_operator(body)
    for n in (4, 6, 8, 10, 11, 12, 13, 14, 15, 21, 22):
        x = rl.arange(float(n))
        np.testing.assert_allclose(operator(x).item(), x.numpy().sum() if n % 2 else x.numpy().mean())
    members, = (seen.plans for seen in operator.polymorphic.values())
    assert any(any("%" in c for c in member.conditions) for member in members)


def test_other_threads_find_no_plan_whose_kernels_are_still_compiled(forget, monkeypatch):
    """What a polymorphic plan calls may be stubs until ``settle``: it is shared after that."""
    operator = polymorphic_operator(lambda x: (x @ x.T).cos().sum(0))
    settle, early = jit.settle, []

    def watched():
        early.extend(seen.plans for seen in operator.polymorphic.values() if jit._pending and seen.plans)
        settle()

    monkeypatch.setattr(jit, "settle", watched)
    with settings.set(cache="0"):
        for n in range(4, 40):
            operator(rl.arange(3.0 * n).reshape(n, 3))
            if any(seen.plans for seen in operator.polymorphic.values()):
                break
    assert [member for seen in operator.polymorphic.values() for member in seen.plans] and not early


def polymorphic_operator(body):
    from rushlight._src.core.op import make
    import inspect
    return make("parity", body, None, inspect.signature(body), 0)


def test_strides_in_steps_of_a_varying_size():
    key = (Meta((2, 7, 8), (7 * 24, 24, 1), rl.float32), None, 0)
    earlier = (Meta((2, 5, 8), (5 * 24, 24, 1), rl.float32), None, 0)
    found = polymorphic.InferredSymbols(key, earlier)
    meta, = found.stood
    n, = (e for e, _, _ in found.found)
    assert meta.shape == (2, n, 8) and meta.strides[0] is n * 24 and isinstance(meta.shape[1], Expr)


def test_strides_of_single_elements_may_be_any(forget, monkeypatch):
    """Columns of a table that grows: the same form, of which only a stride that nothing depends on differs."""
    def columns(sizes):
        for n in sizes:
            table = rl.arange(3 * n).view(3, n)
            assert (table[1:2, n - 1:] + table[0:1, 1:2]).item() == 2 * n

    columns((5, 6, 7, 8))
    counts = plans_made(monkeypatch, lambda: columns((9, 10, 40)))
    assert counts[0] == 0


def test_a_whole_and_its_parts_are_two_sizes(forget, monkeypatch):
    """What ``chunk`` asks for: a start and a length of a tensor that is as long as both."""
    def chunks(sizes):
        for n in sizes:
            x = rl.arange(n)
            assert [part.tolist() for part in x.chunk(3)] == [part.tolist()
                                                              for part in np.split(x.numpy(), (-(-n // 3), 2
                                                                                               * -(-n // 3)))]

    chunks(range(20, 60, 5))
    counts = plans_made(monkeypatch, lambda: chunks((101, 122, 83, 94)))
    assert counts[0] == 0


def test_templates_with_tables_are_filled_in(forget, monkeypatch):
    """Convolutions read tables of places, which differ from size to size."""
    weight = rl.randn(8, 4, 3)

    def convolved(sizes):
        return [rl.nn.functional.conv1d(rl.ones(1, 4, n), weight).sum().item() / (n - 2) for n in sizes]

    convolved(range(40, 160, 4))
    settled = []
    monkeypatch.setattr(polymorphic.PendingCall, "plan", lambda *given: settled.append(given))
    found = convolved((133, 222, 311))
    assert not settled and np.allclose(found, weight.sum().item(), rtol=1e-4)


LAYOUTS = (((2, 3), (3, 1)), ((3, 2), (1, 3)), ((2, 4), (2, 2)), ((4, 2), (2, 2)), ((2, 3), (1, 2)), ((3, 3), (4, 2)),
           ((2, 3), (2, 2)), ((5, 2), (3, 3)), ((2, 5), (1, 1)), ((3, 2), (2, 2)), ((2, 2), (2, 5)), ((2, 3), (3, 3)))


@pytest.mark.parametrize("seed", range(20))
def test_layouts_of_results_do_not_depend_on_calls_before(seed, forget):
    """Dimensions of equal strides are ordered by size, also by a plan that was made for different strides."""
    judge = pytest.importorskip("torch")
    for shape, strides in random.Random(seed).sample(LAYOUTS, len(LAYOUTS)):
        found, wanted = ((t.arange(40.0).as_strided(shape, strides, 1) * 2).stride() for t in (rl, judge))
        assert tuple(found) == tuple(wanted), (shape, strides)
