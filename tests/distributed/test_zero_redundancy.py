"""ZeroRedundancyOptimizer: steps are those of one optimizer; its state goes to and fro."""
import pytest

import rushlight as torch
from rushlight.distributed import threads
from rushlight.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from rushlight.distributed.optim import ZeroRedundancyOptimizer
from rushlight.nn.parallel import DistributedDataParallel


def model():
    made = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    for k, p in enumerate(made.parameters()):
        p.data = torch.randn(p.shape, generator=torch.Generator().manual_seed(k)) * 0.5
    return made


def stepped(net, optimizer, steps):
    schedule, found = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5), []
    for step in range(steps):
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        found.append(loss.item())
    return found


def groups(net):
    return [{"params": net[0].parameters(), "lr": 0.1}, {"params": net[2].parameters(), "weight_decay": 0.1}]


@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_steps_and_states(kind):
    more = {"momentum": 0.9} if kind == "SGD" else {}
    one = model()
    optimizer = getattr(torch.optim, kind)(groups(one), lr=0.05, **more)
    expected = stepped(one, optimizer, 6)
    state = optimizer.state_dict()

    def member(rank):
        net = model()
        own = ZeroRedundancyOptimizer(groups(net), getattr(torch.optim, kind), lr=0.05, **more)
        found = stepped(net, own, 6)
        assert sum(len(g["params"]) for g in own.optim.param_groups) < 4
        with pytest.raises(RuntimeError, match="consolidate"):
            own.state_dict()
        own.consolidate_state_dict(to=1)
        if rank == 1:
            kept = own.state_dict()
            assert kept["param_groups"][0]["lr"] == state["param_groups"][0]["lr"]
            for k, values in state["state"].items():
                for name, value in values.items():
                    torch.testing.assert_close(kept["state"][k][name], value)
        fresh = ZeroRedundancyOptimizer(groups(net), getattr(torch.optim, kind), lr=0.7, **more)
        fresh.load_state_dict(state)
        fresh.consolidate_state_dict(to=0)
        if rank == 0:
            torch.testing.assert_close(fresh.state_dict()["state"], state["state"])
        return found, [p.detach() for p in net.parameters()]
    for found, parameters in threads.run(2, member):
        assert found == pytest.approx(expected, abs=1e-6)
        torch.testing.assert_close(parameters, [p.detach() for p in one.parameters()])


def test_groups_that_come_later():
    def member(rank):
        net, extra = model(), torch.nn.Parameter(torch.ones(3))
        own = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1)
        own.add_param_group({"params": [extra], "lr": 1.0})
        extra.grad = torch.ones(3)
        own.step()
        assert extra.tolist() == [0.0] * 3 and len(own.param_groups) == len(own.optim.param_groups) == 2
    threads.run(2, member)


@pytest.mark.parametrize("hook_of", [ddp_zero_hook.hook_with_zero_step, ddp_zero_hook.hook_with_zero_step_interleaved])
def test_steps_within_the_backward_pass(hook_of):
    """Losses and parameters are those of one optimizer; states are, too."""
    one = model()
    optimizer = torch.optim.AdamW(one.parameters(), lr=0.05)
    expected = [stepped(one, optimizer, 5)]

    def member(rank):
        net = DistributedDataParallel(model(), bucket_cap_mb=1e-5)
        zero = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, overlap_with_ddp=True, lr=0.05)
        net.register_comm_hook(None, hook_of(allreduce_hook, net, zero))
        assert len(net.reducer.buckets) > 2
        with pytest.raises(RuntimeError, match="single parameter group"):
            zero.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
        found = stepped(net, zero, 5)
        zero.consolidate_state_dict(0)
        if rank == 0:
            for k, values in optimizer.state_dict()["state"].items():
                torch.testing.assert_close(zero.state_dict()["state"][k], values)
        torch.testing.assert_close([*net.parameters()], [*one.parameters()])
        return found
    with pytest.warns(UserWarning, match="should not be included in the training loop"):
        every = threads.run(2, member)
    for found in every:
        assert found == pytest.approx(expected[0], abs=1e-6)


@pytest.mark.parametrize("hook_of", [ddp_zero_hook.hook_with_zero_step, ddp_zero_hook.hook_with_zero_step_interleaved])
def test_gradients_of_a_pass_that_an_error_ended_are_not_stepped(hook_of):
    """A wrapper that is made anew goes on with the hook and the optimizer of the one before."""
    def member(rank):
        module = model()
        zero = ZeroRedundancyOptimizer(module.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.5)
        wrong = []

        def average(state, bucket):
            if bucket.index() == 1 and wrong:
                raise ConnectionError(wrong.pop())
            return allreduce_hook(state, bucket)
        hook = hook_of(average, None, zero)
        net = DistributedDataParallel(module, bucket_cap_mb=1e-5)
        net.register_comm_hook(None, hook)
        wrong.append("the second bucket")
        with pytest.raises(ConnectionError, match="the second bucket"):
            net(torch.ones(2, 4)).sum().backward()
        for p in module.parameters():
            p.grad = None
        with torch.no_grad():
            for p, q in zip(module.parameters(), model().parameters()):
                p.copy_(q)  # interleaved, a bucket has been stepped
        del net
        net = DistributedDataParallel(module, bucket_cap_mb=1e-5)
        net.register_comm_hook(None, hook)
        net(torch.ones(2, 4)).sum().backward()
        return [p.detach() for p in module.parameters()]
    alone = model()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.5)
    alone(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    for found in threads.run(2, member):
        torch.testing.assert_close(found, [p.detach() for p in alone.parameters()])


def test_a_hook_wants_an_optimizer_that_overlaps():
    def member(rank):
        net = DistributedDataParallel(model())
        with pytest.raises(ValueError, match="overlap_with_ddp=True"):
            ddp_zero_hook.hook_with_zero_step(allreduce_hook, net, ZeroRedundancyOptimizer(
                net.parameters(), torch.optim.SGD, lr=0.1))
    threads.run(2, member)
