"""States of models and optimizers by own names, beside PyTorch's."""
import copy

import pytest
import torch as judge

import rushlight as torch
from rushlight.distributed import threads
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import DTensor, init_device_mesh
from rushlight.distributed.tensor.parallel import ColwiseParallel, parallelize_module


def trained(library, steps=1, wrap=lambda model: model, kind="AdamW"):
    library.manual_seed(0)
    model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.Tanh(), library.nn.BatchNorm1d(4),
                                  library.nn.Linear(4, 2))
    for parameter in model.parameters():
        parameter.data.copy_((library.arange(parameter.numel()) * 5 % 7).reshape(parameter.shape) / 7 - 0.4)
    model[3].bias.requires_grad_(False)
    wrapped = wrap(model)
    parts = [{"params": model[0].parameters(), "lr": 0.1}, {"params": [*model[2].parameters(), model[3].weight]}]
    optimizer = getattr(library.optim, kind)(parts, lr=0.01)
    for k in range(steps):
        model(library.arange(12.0).reshape(4, 3) - k).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return wrapped, optimizer


def plain(value):
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return [round(v, 4) for v in value.double().flatten().tolist()] if hasattr(value, "double") else value


def module_of(library):
    return library.distributed.checkpoint.state_dict if library is torch else __import__(
        "torch.distributed.checkpoint.state_dict", fromlist=["x"])


OPTIONS = ({}, {"ignore_frozen_params": True}, {"flatten_optimizer_state_dict": True},
           {"full_state_dict": True, "cpu_offload": True})


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("steps", [0, 2])
def test_states_are_pytorchs(options, steps):
    found = {}
    for library in (judge, torch):
        helpers = module_of(library)
        model, optimizer = trained(library, steps)
        found[library] = [plain(part)
                          for part in helpers.get_state_dict(model, optimizer,
                                                             options=helpers.StateDictOptions(**options))]
    assert found[torch][0] == found[judge][0]
    ours, theirs = found[torch][1], found[judge][1]
    assert set(ours) == set(theirs)
    assert ours.get("state") == theirs.get("state")
    for a, b in zip(ours.get("param_groups", ()), theirs.get("param_groups", ())):
        assert sorted(a["params"]) == sorted(b["params"]) and a["lr"] == b["lr"]


@pytest.mark.parametrize("flat", [False, True])
def test_states_are_loaded_into_wrapped_models(flat):
    helpers = module_of(torch)
    options = helpers.StateDictOptions(flatten_optimizer_state_dict=flat)
    model, optimizer = trained(torch, 2)
    state = copy.deepcopy(helpers.get_state_dict(model, optimizer, options=options))
    for wrap in (torch.compile, torch.nn.DataParallel):
        other, fresh = trained(torch, 0, wrap)
        missing = helpers.set_state_dict(other, fresh, model_state_dict=state[0], optim_state_dict=state[1],
                                         options=options)
        assert not missing.missing_keys and not missing.unexpected_keys
        again = helpers.get_state_dict(other, fresh, options=options)
        assert plain(again) == plain(state)
    other, fresh = trained(torch, 0, kind="SGD")
    helpers.set_optimizer_state_dict(other, fresh, {}, options=options)
    with pytest.raises(RuntimeError, match="Missing"):
        helpers.set_model_state_dict(other, {"0.weight": state[0]["0.weight"]})
    with pytest.raises(RuntimeError, match="Missing optimizer state"):
        helpers.set_optimizer_state_dict(*trained(torch, 0), {"state": {}, "param_groups": []})


def test_states_of_parts():
    helpers = module_of(torch)
    model, optimizer = trained(torch, 1)
    assert list(helpers.get_model_state_dict(model, submodules={model[3]})) == ["3.weight", "3.bias"]
    assert list(helpers.get_model_state_dict(model, submodules={model[3]},
                                             options=helpers.StateDictOptions(keep_submodule_prefixes=False))) == [
                                                 "weight", "bias"]
    assert list(helpers.get_optimizer_state_dict(model, optimizer,
                                                 submodules={model[0]})["state"]) == ["0.weight", "0.bias"]


def shared(rank, how, first, flat, broadcast, given):
    """A model whose parameters are parts takes a whole state, and gives it again after a step; what a process without
    parts has after the same step."""
    helpers, (mesh_shape, split) = module_of(torch), how
    mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=("data", "model")[-len(mesh_shape):])
    model, optimizer = trained(torch, 0, lambda model: split(model, mesh))
    options = helpers.StateDictOptions(full_state_dict=True, flatten_optimizer_state_dict=flat,
                                       broadcast_from_rank0=broadcast)
    state = given if first or rank == 0 else ({}, {})
    helpers.set_state_dict(model, optimizer, model_state_dict=state[0], optim_state_dict=state[1], options=options)
    found = helpers.get_state_dict(model, optimizer, options=options)
    offloaded = helpers.get_state_dict(model, optimizer, options=helpers.StateDictOptions(full_state_dict=True,
                                                                                         cpu_offload=True))
    assert [bool(part) for part in offloaded] == [rank == 0] * 2
    assert any(isinstance(p, DTensor) for p in model.parameters())
    assert not any(isinstance(v, DTensor) for v in found[0].values())
    return plain(found)


WAYS = {"parts": ((2,), lambda model, mesh: fully_shard(model, mesh=mesh)),
        "columns": ((2,), lambda model, mesh: parallelize_module(model, mesh, {"0": ColwiseParallel()})),
        "replicas of parts": ((2, 2), lambda model, mesh: fully_shard(model, mesh=mesh))}


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_states_of_parts_are_whole(way, flat):
    helpers, how = module_of(torch), WAYS[way]
    options = helpers.StateDictOptions(flatten_optimizer_state_dict=flat)
    given = copy.deepcopy(helpers.get_state_dict(*trained(torch, 2), options=options))
    for first, broadcast in ((True, False), (False, True)):
        for found in threads.run(len(how[0]) * 2, shared, how, first, flat, broadcast, given):
            assert found == plain(given)
    with pytest.raises(ValueError, match="full_state_dict must be True"):
        helpers.get_model_state_dict(trained(torch, 0)[0], options=helpers.StateDictOptions(broadcast_from_rank0=True))


@pytest.mark.parametrize("kind", ["Adam", "SGD", "RMSprop"])
def test_optimizers_make_their_state_before_a_step(kind):
    from rushlight.distributed.checkpoint.state_dict import _init_optim_state
    layer = torch.nn.Linear(2, 1)
    before = [p.detach().clone() for p in layer.parameters()]
    optimizer = getattr(torch.optim, kind)(layer.parameters(), lr=0.5)
    _init_optim_state(optimizer)
    assert all(map(torch.equal, before, layer.parameters())) and optimizer.param_groups[0]["lr"] == 0.5
    assert all(p.grad is None for p in layer.parameters()) and len(optimizer.state) == 2
