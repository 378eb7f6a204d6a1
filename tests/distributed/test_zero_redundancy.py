"""ZeroRedundancyOptimizer: steps are those of one optimizer; its state goes to and fro."""
import pytest

import rushlight as torch
from rushlight.distributed import threads
from rushlight.distributed.optim import ZeroRedundancyOptimizer


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
        with pytest.raises(NotImplementedError, match="overlap"):
            ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.1)
    threads.run(2, member)
