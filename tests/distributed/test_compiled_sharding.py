"""Tensors over several processes, here threads, in compiled functions: in one graph, with the results and gradients of
eager calls."""
from __future__ import annotations

import datetime
import math
import random

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._dynamo.testing import CompileCounter
from rushlight._src.core.settings import settings
from rushlight.distributed import threads
from rushlight.distributed.tensor import (DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh,
                                          transfer)
from rushlight.distributed.tensor.experimental import implicit_replication, local_map
from rushlight.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel,
                                                   SequenceParallel, loss_parallel, parallelize_module)
from rushlight.nn import functional as F

PATIENCE = datetime.timedelta(minutes=10)


@pytest.fixture(autouse=True, scope="module")
def by_reference():
    """Programs run by their NumPy reference: what is tested are graphs, not kernels."""
    with settings.set(kernels=False, store=False):
        yield


def run(count, function, *args):
    return threads.run(count, function, *args, timeout=PATIENCE)


def whole(value):
    """Results as lists of numbers."""
    if isinstance(value, (tuple, list)):
        return list(map(whole, value))
    if isinstance(value, DTensor):
        return value.full_tensor().tolist()
    return value.tolist() if isinstance(value, rl.Tensor) else value


def near(found, wanted) -> bool:
    """True if two nested lists are equal up to the order in which numbers were added."""
    if isinstance(wanted, (list, tuple)):
        return isinstance(found, (list, tuple)) and len(found) == len(wanted) and all(map(near, found, wanted))
    return found == wanted or type(found) is type(wanted) is float and math.isclose(found, wanted, rel_tol=1e-4,
                                                                                    abs_tol=1e-4)


def numbers(*shape):
    return rl.sin(rl.arange(float(rl.Size(shape).numel())) * 1.3 + 0.2).reshape(shape)


def pull(result):
    """A backward pass from a result, of which each element has a weight of its own."""
    one = result[0] if isinstance(result, tuple) else result
    one = one.full_tensor() if isinstance(one, DTensor) else one
    if one.requires_grad:
        (one * rl.arange(1.0, one.numel() + 1).reshape(one.shape)).sum().backward()


# --- functions of DTensors --------------------------------------------------------------------------------------------
# each of (x: 6 x 4, split by rows; w: 4 x 4, a parameter split by columns; v: 4, a parameter that is whole)
def doubled_in_place(x, w, v):
    x.mul_(2)
    x += 1
    return x


def step(x, w, v):
    with rl.no_grad():
        w.mul_(0.5)
        v.add_(w.sum(0))
    return w.full_tensor()


def by_class(x, w, v):
    with loss_parallel():
        return F.cross_entropy(x @ w, rl.tensor([0, 1, 2, 3, 0, 1])).full_tensor()


def replicated(x, w, v):
    with implicit_replication():
        return (x @ w + rl.ones(4)).full_tensor()


def without_gradient(x, w, v):
    with rl.no_grad():
        a = x @ w
    return w * 3, a, (x * v).detach() + 1


def facts(x, w, v):
    y = x @ w
    return ((y * 1).full_tensor(), y.placements == (Shard(0),), y.placements[0].is_shard(), y.device_mesh.size(),
            tuple(y.shape), tuple(y.to_local().shape), isinstance(y, DTensor), type(y) is DTensor, w.is_leaf, y.is_leaf,
            y.dtype is rl.float32, y.device_mesh.get_local_rank() < 2)


def branching(x, w, v):
    y = x @ w
    return (y + v if y.placements == (Shard(0),) else y - v).full_tensor()


def redistributed_by(placements):
    return lambda x, w, v: (x * v).redistribute(placements=placements).sin()


PROGRAMS = {
    "elementwise": lambda x, w, v: (x * 2 + v).sin(),
    "matmul": lambda x, w, v: x @ w,
    "linear": lambda x, w, v: F.linear(x, w, v),
    "softmax": lambda x, w, v: rl.softmax(x @ w, -1),
    "norm": lambda x, w, v: F.layer_norm(x @ w, (4,), v),
    "views": lambda x, w, v: (x @ w).t().reshape(2, 2, 6).transpose(0, 2).unsqueeze(1),
    "several results": lambda x, w, v: rl.cat((x @ w).chunk(2, 1), 0).max(0).values,
    "reductions": lambda x, w, v: (x * v).sum() + (x @ w).mean(0).square().sum(),
    "one used twice": lambda x, w, v: (x @ w) @ w.t() + x * v,
    "attention": lambda x, w, v: F.scaled_dot_product_attention(*((x @ w).view(1, 2, 3, 4),) * 3, is_causal=True),
    "parts": lambda x, w, v: x.to_local() @ w.full_tensor() + v.to_local(),
    "gradients of parts": lambda x, w, v: w.to_local(grad_placements=[Shard(1)]).sum() * v.full_tensor(),
    "from parts": lambda x, w, v: DTensor.from_local(x.to_local() * v.to_local(
        grad_placements=[Partial()]), x.device_mesh, [Shard(0)]) * v,
    "terms": lambda x, w, v: DTensor.from_local(v.to_local() * 2, x.device_mesh, [Partial()]) * v,
    "averaged terms": lambda x, w, v: DTensor.from_local(w.to_local(), x.device_mesh, [Partial("avg")],
                                                         run_check=False).redistribute(placements=[Shard(0)]),
    "to whole": redistributed_by([Replicate()]),
    "to other parts": redistributed_by([Shard(1)]),
    "distributed there": lambda x, w, v: x @ distribute_tensor(numbers(4, 4), x.device_mesh, [Shard(0)]) * v,
    "made after one": lambda x, w, v: (rl.zeros_like(x) + x.new_ones(6, 4)) * v,
    "functions of parts": lambda x, w, v: local_map(lambda a, b: a @ b, out_placements=[Shard(0)])(
        x, w.redistribute(placements=[Replicate()])),
    "as they are": lambda x, w, v: (w * 1, x, w, x.to_local()),
    **{f.__name__: f for f in (doubled_in_place, step, by_class, replicated, without_gradient, facts, branching)},
}


def sharded(mesh, place=Shard(0)):
    x = distribute_tensor(numbers(6, 4), mesh, [place])
    return (x, *(nn.Parameter(distribute_tensor(value, mesh, [how]))
                 for value, how in ((numbers(4, 4).cos(), Shard(1)), (numbers(4).exp(), Replicate()))))


def answers(function, mesh):
    """What a function gives, what it leaves of its arguments, and their gradients."""
    given = sharded(mesh)
    result = function(*given)
    pull(result)
    return whole(result), whole(given), whole([one.grad for one in given])


@pytest.fixture(scope="module")
def both():
    """name -> (eager answers, compiled ones) of all programs, for each process of two."""
    def member(rank):
        mesh, found = init_device_mesh("cpu", (2,)), {}
        for name, program in PROGRAMS.items():
            found[name] = (answers(program, mesh), answers(rl.compile(program, fullgraph=True), mesh))
        return found
    return run(2, member)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_they_give_uncompiled(both, name):
    for found in both:
        eager, compiled = found[name]
        assert near(compiled, eager), (compiled, eager)


@pytest.mark.parametrize("name", ("elementwise", "matmul", "softmax", "norm", "several results", "one used twice"))
def test_programs_give_what_one_process_gives(both, name):
    given = numbers(6, 4), numbers(4, 4).cos().requires_grad_(), numbers(4).exp().requires_grad_()
    result = PROGRAMS[name](*given)
    pull(result)
    for found in both:
        results, _, gradients = found[name][1]
        assert rl.allclose(rl.tensor(results), result, atol=1e-5)
        for one, tensor in zip(gradients, given):
            assert (one is None) == (tensor.grad is None)
            assert one is None or rl.allclose(rl.tensor(one), tensor.grad, atol=1e-4)


# --- random numbers ---------------------------------------------------------------------------------------------------
def drawn_several_times(x, w, v):
    first, plain = F.dropout(x @ w, 0.5) * v, rl.rand(4)
    return F.dropout(first + rl.rand_like(x), 0.3), first.detach() * 2, rl.randn_like(v.detach()), plain


DRAWING = {
    "dropout": lambda x, w, v: F.dropout(x @ w, 0.5),
    "alpha dropout": lambda x, w, v: F.alpha_dropout(w, 0.2, True),
    "attention": lambda x, w, v: F.scaled_dot_product_attention(*((x @ w).view(1, 2, 3, 4),) * 3, dropout_p=0.3),
    "in place": lambda x, w, v: x.uniform_(-1, 1) + (v * 1).detach().clone().exponential_(),
    "like": lambda x, w, v: rl.rand_like(x) + rl.randint_like(x, 5) * v,
    "of parameters": lambda x, w, v: rl.normal(x, 0.5) + rl.bernoulli(x, 0.4),
    drawn_several_times.__name__: drawn_several_times,
}


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", DRAWING)
def test_programs_draw_what_they_draw_uncompiled(name, ranks):
    """Values, gradients and the stream afterwards are those of eager calls, at each call."""
    def member(rank):
        mesh, found = init_device_mesh("cpu", (ranks,)), []
        for function in (DRAWING[name], rl.compile(DRAWING[name], fullgraph=True)):
            rl.manual_seed(3)
            found.append([answers(function, mesh) for _ in range(2)] + [rl.get_rng_state().tolist()])
        return found
    with settings.set(kernels=name == "attention"):
        for eager, compiled in run(ranks, member):
            assert near(compiled[:2], eager[:2]) and compiled[2] == eager[2] and not near(eager[0], eager[1])


def test_processes_draw_alike():
    """Each process has its part of what the first one draws."""
    def member(rank):
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(rl.ones(6, 4), mesh, [Shard(0)])
        compiled, found = rl.compile(lambda x: (F.dropout(x, 0.5), rl.rand_like(x.full_tensor() * x.sum())),
                                     fullgraph=True), []
        for _ in range(2):
            dropped, noise = compiled(x)
            found.append((dropped.to_local().tolist(), whole(dropped), whole(noise), noise.to_local().tolist()))
        return found
    for first, second in zip(*run(2, member)):
        assert first[1:] == second[1:] and first[0] + second[0] == first[1]
        assert 0 < sum(value == 0 for row in first[1] for value in row) < 24


# --- captures ---------------------------------------------------------------------------------------------------------
def test_other_placements_are_other_captures():
    def member(rank):
        mesh, backend = init_device_mesh("cpu", (2,)), CompileCounter()
        compiled, counts = rl.compile(lambda x, v: (x * v).sum(0), backend=backend, fullgraph=True), []
        v = distribute_tensor(numbers(4), mesh)
        for place in (Shard(0), Shard(0), Replicate(), Shard(0), Shard(1), Replicate()):
            x = distribute_tensor(numbers(6, 4), mesh, [place])
            assert rl.allclose(compiled(x, v).full_tensor(), (numbers(6, 4) * numbers(4)).sum(0))
            counts.append(backend.frame_count)
        compiled(distribute_tensor(numbers(8, 4), mesh, [Shard(0)]), v)
        compiled(x.redistribute(placements=[Shard(0)]).detach().requires_grad_(), v).full_tensor().sum().backward()
        return [*counts, backend.frame_count]
    assert run(2, member) == [[1, 1, 2, 2, 3, 3, 5]] * 2


def test_placements_as_arguments_are_compared_by_value():
    def member(rank):
        mesh, backend = init_device_mesh("cpu", (2,)), CompileCounter()
        compiled = rl.compile(lambda x, place: x.redistribute(placements=[place]) * 2, backend=backend, fullgraph=True)
        x, counts = distribute_tensor(numbers(4, 4), mesh, [Shard(0)]), []
        for place in (Shard(1), Shard(1), Replicate(), Shard(0), Shard(1)):
            found = compiled(x, type(place)(place.dim) if place.is_shard() else Replicate())
            assert found.placements == (place,) and rl.equal(found.full_tensor(), numbers(4, 4) * 2)
            counts.append(backend.frame_count)
        return counts
    assert run(2, member) == [[1, 1, 2, 3, 3]] * 2


def test_collectives_are_nodes():
    """A compiled call asks nothing of Python's redistribution again."""
    def member(rank):
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(numbers(4, 4), mesh, [Shard(0)])
        compiled = rl.compile(lambda x: (x @ x).full_tensor(), fullgraph=True)
        compiled(x)
        rl.distributed.barrier()
        before = sum(transfer.COUNTS.values())
        rl.distributed.barrier()
        assert rl.allclose(compiled(x), numbers(4, 4) @ numbers(4, 4), atol=1e-5)
        rl.distributed.barrier()
        return sum(transfer.COUNTS.values()) - before
    assert run(2, member) == [0, 0]


REFUSED = {
    "backward() to tensors that wrap others": lambda x, w, v: (x @ w).full_tensor().sum().backward(),
    "or of tensors that wrap others": lambda x, w, v: rl.autograd.grad((x @ w).full_tensor().sum(), w),
    "mul_ of a tensor that wraps others": lambda x, w, v: (x @ w).mul_(2),
    "a write into a view of a tensor that wraps others": lambda x, w, v: (x.view(12, 2).add_(1), x),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_recorded_divides_the_graph(reason):
    def member(rank):
        mesh = init_device_mesh("cpu", (2,))
        with pytest.raises(RuntimeError, match=reason.replace("(", r"\(").replace(")", r"\)")):
            rl.compile(REFUSED[reason], fullgraph=True)(*sharded(mesh))
    run(2, member)


# --- drawn programs ---------------------------------------------------------------------------------------------------
STEPS = {
    "redistribute": lambda draw, x, w: x.redistribute(placements=draw),
    "matmul": lambda draw, x, w: x @ w.redistribute(placements=draw),
    "add": lambda draw, x, w: x + w.sum(0),
    "softmax": lambda draw, x, w: rl.softmax(x, -1),
    "transposed": lambda draw, x, w: (x.t() @ x) @ w,
    "scaled": lambda draw, x, w: x * w.mean() / (1 + x.square()),
    "through parts": lambda draw, x, w: DTensor.from_local(x.redistribute(placements=[Shard(0)] * len(
        draw)).to_local().cos(), x.device_mesh, [Shard(0)] * len(draw)),
    "rows": lambda draw, x, w: rl.cat([x[:4], x[4:].flip(0)], 0),
}


@pytest.mark.parametrize("shape, count", [((2,), 4), ((2, 2), 2)])
def test_drawn_programs(shape, count):
    """Random steps under random placements over meshes of two and of four processes."""
    def member(rank):
        mesh, drawing = init_device_mesh("cpu", shape), random.Random(str(shape))
        ways = [Shard(0), Shard(1), Replicate()]
        for _ in range(count):
            plan = [(drawing.choice(sorted(STEPS)), [drawing.choice(ways) for _ in shape]) for _ in range(4)]
            begin = [drawing.choice(ways) for _ in shape], [drawing.choice(ways) for _ in shape]

            def program(x, w):
                for name, draw in plan:
                    x = STEPS[name](draw, x, w)
                return x

            found = []
            for function in (program, rl.compile(program, fullgraph=True)):
                given = [distribute_tensor(value, mesh, how).requires_grad_()
                         for value, how in zip((numbers(8, 4), numbers(4, 4)), begin)]
                result = function(*given)
                pull(result)
                found.append((result.placements, whole(result), whole([one.grad for one in given])))
            assert found[0][0] == found[1][0] and near(found[1][1:], found[0][1:]), (plan, begin)
    run(2 if shape == (2,) else 4, member)


# --- layers -----------------------------------------------------------------------------------------------------------
class Block(nn.Module):
    """A layer of a transformer, over ``heads`` heads in all processes together."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.size = width // heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        for k, p in enumerate(self.parameters()):
            p.data.copy_(numbers(*p.shape) * 0.3 + 0.02 * k)

    def forward(self, x):
        y = self.before(x)
        q, k, v = (layer(y).unflatten(-1, (-1, self.size)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.o(y)
        return x + self.down(F.gelu(self.up(self.after(x))))


COLUMNS = {"q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel(), "up": ColwiseParallel()}
PLANS = {
    "tensor parallel": {**COLUMNS, "o": RowwiseParallel(), "down": RowwiseParallel()},
    "sequence parallel": {
        "before": SequenceParallel(), "after": SequenceParallel(),
        **{name: ColwiseParallel(input_layouts=Shard(1)) for name in COLUMNS},
        "o": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1))},
}


@pytest.mark.parametrize("plan", PLANS)
def test_a_transformer_block(plan):
    """Three steps, compiled as one graph: outputs, gradients and parameters are those of one process."""
    def train(module, call, x):
        found = []
        for _ in range(3):
            y = call(x)
            y = y.full_tensor() if isinstance(y, DTensor) else y
            y.square().mean().backward()
            with rl.no_grad():
                for p in module.parameters():
                    p -= 0.1 * p.grad
            found.append((y.detach(), [whole(p.grad) for p in module.parameters()]))
            module.zero_grad()
        return found, [whole(p) for p in module.parameters()]

    alone = Block()
    wanted, last = train(alone, alone, numbers(2, 4, 8))

    def member(rank):
        mesh, backend, found = init_device_mesh("cpu", (2,)), CompileCounter(), []
        for compiled in (False, True):
            module = parallelize_module(Block(), mesh, PLANS[plan])
            call = rl.compile(module, fullgraph=True) if compiled else module
            found.append(train(module, call, numbers(2, 4, 8)))
        return found

    for eager, compiled in run(2, member):
        for steps, parameters in (eager, compiled):
            for (y, gradients), (want, wants) in zip(steps, wanted):
                assert rl.allclose(y, want, atol=1e-5)
                for one, other in zip(gradients, wants):
                    assert rl.allclose(rl.tensor(one), rl.tensor(other), atol=1e-4)
            for one, other in zip(parameters, last):
                assert rl.allclose(rl.tensor(one), rl.tensor(other), atol=1e-4)
