"""Models in stages: every schedule trains as one process does; models are cut by marks; batches are split."""
from __future__ import annotations

import datetime

import pytest

import rushlight as torch
from rushlight import nn
from rushlight._src.core.settings import settings
from rushlight.distributed import pipelining, threads
from rushlight.distributed.pipelining import orders
from rushlight.distributed.pipelining.microbatch import merge_chunks, split_args_kwargs_into_chunks
from rushlight.distributed.pipelining.schedules import get_schedule_class

PATIENCE = datetime.timedelta(minutes=10)
BATCHES = 4


@pytest.fixture(autouse=True)
def by_meaning():
    with settings.set(kernels=False, store=False):
        yield


def layers(count):
    generator = torch.Generator().manual_seed(0)
    made = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(count)]
    for layer in made:
        for p in layer.parameters():
            p.data = torch.randn(p.shape, generator=generator) * 0.4
    return made


def data(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(8, 6, generator=generator), torch.randn(8, 6, generator=generator)


def trained(model, run, steps):
    optimizer, found = torch.optim.AdamW(model.parameters(), 0.01), []
    for step in range(steps):
        optimizer.zero_grad()
        found.append(run(*data(step)))
        optimizer.step()
    return found


def alone(count, steps):
    model = nn.Sequential(*layers(count))

    def run(x, target):
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        return loss.item()
    return trained(model, run, steps)


def in_stages(rank, name, ranks, count, steps):
    schedule_class = get_schedule_class(name)
    place = schedule_class.place(ranks, count)
    every = layers(count)
    own = [k for k in range(count) if place[k] == rank]
    stages = [pipelining.PipelineStage(every[k], k, count, torch.device("cpu")) for k in own]
    given = stages if issubclass(schedule_class, pipelining.schedules.PipelineScheduleMulti) else stages[0]
    schedule = schedule_class(given, BATCHES, loss_fn=nn.functional.mse_loss)

    def run(x, target):
        losses = []
        out = schedule.step(*([x] if 0 in own else []), **({"target": target, "losses": losses}
                                                          if count - 1 in own else {}))
        assert (out is not None) == (count - 1 in own) and (out is None or out.shape == x.shape)
        return sum(loss.item() for loss in losses) / BATCHES
    found = trained(nn.ModuleList(every[k] for k in own), run, steps)
    x, _ = data(0)
    out = schedule.eval(*([x] if 0 in own else []), **({"target": data(0)[1]} if count - 1 in own else {}))
    return found if count - 1 in own else None, out


@pytest.mark.parametrize("name, ranks, count", (
    ("GPipe", 2, 2), ("1F1B", 3, 3), ("LoopedBFS", 2, 4), ("Interleaved1F1B", 2, 4), ("InterleavedZeroBubble", 2, 4),
    ("ZBVZeroBubble", 2, 4), ("DualPipeV", 2, 4)))
def test_losses_are_those_of_one_process(name, ranks, count):
    """Over 50 steps, to 1e-5."""
    expected = alone(count, 50)
    found = [f for f in threads.run(ranks, in_stages, name, ranks, count, 50, timeout=PATIENCE) if f[0] is not None]
    assert len(found) == 1 and found[0][0] == pytest.approx(expected, abs=1e-5) and found[0][1].shape == (8, 6)


def test_orders_do_everything_once():
    for ranks, batches in ((2, 4), (3, 6), (4, 8)):
        for halves in (False, True):
            for rank in range(ranks):
                found = orders.interleaved(rank, ranks, [rank, rank + ranks], batches, halves)
                assert len(set(found)) == len(found) == 2 * batches * (3 if halves else 2)
        found = [a for rank in range(ranks) for a in orders.back_and_forth(rank, ranks, batches)]
        assert len(set(found)) == len(found) == 2 * ranks * batches * 3
        for more in range(2):
            lists = [orders.both_ways(rank, ranks, batches + more) for rank in range(ranks)]
            assert finished(lists, 2 * ranks, batches + more)
    assert str(orders.one_forward_one_backward(0, 2, 3)) == "[0F0, 0F1, 0B0, 0F2, 0B1, 0B2]"


def finished(lists, stages, batches) -> bool:
    """Whether ranks that follow these lists never wait for one another without end, and do everything once."""
    done, rest = set(), [list(actions) for actions in lists]

    def ready(action):
        kind, stage, batch = action
        if kind == "W":
            return ("I", stage, batch) in done
        if kind == "F":
            return not stage or ("F", stage - 1, batch) in done
        return ("F", stage, batch) in done and (stage == stages - 1 or ("I", stage + 1, batch) in done)

    moved = True
    while moved:
        moved = False
        for actions in rest:
            while actions and ready(actions[0]):
                kind, stage, batch = actions.pop(0)
                new = {(k, stage, batch) for k in ("IW" if kind == "B" else kind)}
                assert not new & done
                done |= new
                moved = True
    return done == {(kind, stage, batch) for kind in "FIW" for stage in range(stages) for batch in range(batches)}


class Cut(nn.Module):
    """Its input is read again by the last stage."""

    def __init__(self, mark):
        super().__init__()
        self.first, self.second, self.third, self.mark = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6), mark
        self.register_buffer("shift", torch.ones(6))

    def forward(self, x, *, scale):
        y = self.first(x).relu()
        if self.mark:
            pipelining.pipe_split()
        y = self.second(y) * scale
        if self.mark:
            pipelining.pipe_split()
        return {"y": self.third(y) + x + self.shift}


@pytest.mark.parametrize("mark", [False, True])
def test_models_are_cut(mark):
    torch.manual_seed(0)
    model, x, scale = Cut(mark), torch.randn(8, 6), torch.rand(8, 6)
    spec = None if mark else {"second": pipelining.SplitPoint.BEGINNING, "third": pipelining.SplitPoint.BEGINNING}
    pipe = pipelining.pipeline(model, (x[:2],), {"scale": scale[:2]}, split_spec=spec)
    assert pipe.num_stages == 3
    assert [sorted(n for n, _ in pipe.get_stage_module(k).named_parameters()) for k in range(3)] == [
        ["first.bias", "first.weight"], ["second.bias", "second.weight"], ["third.bias", "third.weight"]]
    expected = model(x, scale=scale)["y"]
    expected.square().mean().backward()

    def member(rank):
        stage = pipe.build_stage(rank, torch.device("cpu"))
        schedule = pipelining.ScheduleGPipe(stage, BATCHES, loss_fn=lambda out, target: out["y"].square().mean())
        for p in stage.submod.parameters():
            p.grad = None
        found = schedule.step(x, scale=scale) if rank == 0 else schedule.step(target=x)
        return found, {n: p.grad for n, p in stage.submod.named_parameters()}
    gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
    every = threads.run(3, member, timeout=PATIENCE)
    torch.testing.assert_close(every[2][0]["y"], expected.detach())
    for _, found in every:
        for name, gradient in found.items():
            torch.testing.assert_close(gradient, gradients[name])


def test_batches_are_split_and_merged():
    x = torch.arange(12).reshape(4, 3)
    args, kwargs = split_args_kwargs_into_chunks(
        (x, 2), {"y": [x]}, 3, kwargs_chunk_spec={"y": [pipelining.microbatch.TensorChunkSpec(1)]})
    assert [a[0].shape[0] for a in args] == [2, 1, 1] and [k["y"][0].shape for k in kwargs] == [(4, 1)] * 3
    assert torch.equal(merge_chunks([a[0] for a in args], None), x)
    with pytest.raises(RuntimeError, match="less than the number of chunks"):
        split_args_kwargs_into_chunks((x,), {}, 5)


def test_what_is_refused():
    def member(rank):
        with pytest.raises(ValueError, match="out of range"):
            pipelining.PipelineStage(nn.Identity(), 2, 2, "cpu")
        with pytest.raises(ValueError, match="microbatches"):
            pipelining.Schedule1F1B(pipelining.PipelineStage(nn.Identity(), rank, 2, "cpu"), 1)
        with pytest.raises(ValueError, match="belongs to"):
            pipelining.ScheduleGPipe(pipelining.PipelineStage(nn.Identity(), 1 - rank, 2, "cpu"), 2)
        with pytest.raises(ValueError, match="2 stages"):
            pipelining.ScheduleZBVZeroBubble([pipelining.PipelineStage(nn.Identity(), rank, 2, "cpu")], 2)
        with pytest.raises(ValueError, match="microbatches"):
            pipelining.ScheduleDualPipeV([pipelining.PipelineStage(nn.Identity(), k, 4, "cpu")
                                          for k in (rank, 3 - rank)],
                                         2)
    threads.run(2, member, timeout=PATIENCE)
    with pytest.raises(ValueError, match="Unknown schedule"):
        get_schedule_class("nothing")


class Later(nn.Module):
    """x w, whose gradient of w is computed when that is asked for."""

    def __init__(self, number):
        super().__init__()
        self.w, self.owed = nn.Parameter(torch.full((3, 3), 0.1 * (number + 1))), []

    def forward(self, x):
        owed, w = self.owed, self.w

        class Product(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x @ w.detach()

            @staticmethod
            def backward(ctx, gradient):
                owed.append((ctx.saved_tensors[0], gradient))
                return gradient @ w.detach().t()
        return Product.apply(x)

    def build(self):
        (x, gradient), = self.owed
        self.owed.clear()

        def run():
            found = x.t() @ gradient
            self.w.grad = found if self.w.grad is None else self.w.grad + found
        return run


@pytest.mark.parametrize("name, per_rank", [("1F1B", 1), ("InterleavedZeroBubble", 2)])
def test_gradients_of_weights_by_a_builder(name, per_rank):
    count = 2 * per_rank
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    weights = [layer.w.detach().clone().requires_grad_() for layer in map(Later, range(count))]
    y = x
    for w in weights:
        y = y @ w
    for part in y.chunk(4):
        (part.square().mean() / 4).backward(retain_graph=True)

    def member(rank):
        layers = {k: Later(k) for k in range(rank, count, 2)}
        stages = [pipelining.PipelineStage(layer, k, count, torch.device("cpu"), dw_builder=layer.build)
                  for k, layer in layers.items()]
        made = get_schedule_class(name)(stages if per_rank > 1 else stages[0], 4,
                                        loss_fn=lambda y, target: y.square().mean())
        given = [x.detach().requires_grad_()] if rank == 0 else []
        made.step(*given, **({"target": torch.zeros(8, 3)} if count - 1 in layers else {}))
        return {k: layer.w.grad for k, layer in layers.items()}
    found = {k: g for part in threads.run(2, member, timeout=PATIENCE) for k, g in part.items()}
    for k, w in enumerate(weights):
        torch.testing.assert_close(found[k], w.grad)


def test_a_builder_beside_replicas_is_refused():
    def member(rank):
        with pytest.raises(RuntimeError, match="dw_builder"):
            pipelining.PipelineStage(nn.parallel.DistributedDataParallel(nn.Linear(2, 2)), 0, 2, "cpu",
                                     dw_builder=lambda: None)
    threads.run(2, member)


def test_a_pipeline_gives_a_tuple_of_tensors_and_takes_names_in_any_order():
    """As PyTorch's, whatever a model's result is made of."""
    class Scaled(nn.Module):
        def __init__(self, nested):
            super().__init__()
            self.first, self.last, self.nested = nn.Linear(4, 4), nn.Linear(4, 4), nested

        def forward(self, x, *, by, plus):
            x = self.first(x) * by
            pipelining.pipe_split()
            y = self.last(x) + plus
            return {"y": y, "more": [x]} if self.nested else y
    x, by, plus = torch.ones(2, 4), torch.full((2, 4), 3.0), torch.zeros(2, 4)
    for nested in (False, True):
        model = Scaled(nested)
        expected = model(x, by=by, plus=plus)
        pipe = pipelining.pipeline(model, (x,), {"by": by, "plus": plus})
        found = pipe(x, plus=plus, by=by)
        assert type(found) is tuple and len(found) == 1 + nested
        torch.testing.assert_close(found[0], expected["y"] if nested else expected)
        with pytest.raises(TypeError, match="other"):
            pipe(x, by=by, other=plus)
