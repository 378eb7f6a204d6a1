"""Layers of the package are followed: a compiled one is not silently run as it is."""
import importlib
import pkgutil

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight._src.capture.calls import INLINED
from rushlight.distributed.fsdp import FullyShardedDataParallel, fully_shard
from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy
from rushlight.nn.parallel import DistributedDataParallel

ROOMS = ("nn", "ao", "distributed", "quantization", "jit", "fx", "utils", "_functorch", "optim", "_dynamo",
         "_src.compat.torchvision", "tools")


def classes(base):
    for cls in base.__subclasses__():
        yield cls
        yield from classes(cls)


def test_every_forward_is_followed():
    for room in ROOMS:
        package = importlib.import_module(f"rushlight.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"rushlight.{room}."):
            if found.name.rpartition(".")[2] != "__main__":
                importlib.import_module(found.name)
    forwards = {cls: cls.__dict__["forward"] for cls in classes(torch.nn.Module)
                if "forward" in cls.__dict__
                and cls.__module__.startswith(tuple(f"rushlight.{room}" for room in ROOMS))}
    assert len(forwards) > 100
    unseen = [cls for cls, forward in forwards.items()
              if (room := getattr(forward, "__globals__", {}).get("__name__"))  # None: written by fx for a graph
              and not room.startswith(INLINED)]
    assert not unseen


@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def operators(model, *args):
    """How many operators a compiled model has in graphs."""
    nodes = []

    def backend(module, examples):
        nodes.extend(n for n in module.graph.nodes if n.op not in ("placeholder", "output"))
        return module.forward
    torch.compile(model, backend=backend)(*args)
    return len(nodes)


def test_a_wrapped_model_is_compiled_as_without(alone):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    x = torch.ones(2, 3)
    assert operators(model, x) == operators(DistributedDataParallel(model), x) == 3


def test_layers_that_are_split_between_uses_are_compiled(alone):
    """Each is a graph, and its parameters are there when it runs, forward and backward."""
    def made():
        torch.manual_seed(0)
        return torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()) for _ in range(3)))
    plain, split, wrapped = made(), made(), made()
    for layer in split:
        fully_shard(layer)
    fully_shard(split)
    wrapped = FullyShardedDataParallel(wrapped, auto_wrap_policy=ModuleWrapPolicy({torch.nn.Sequential}))
    x = torch.randn(2, 3)
    for model in (split, wrapped):
        assert operators(model, x) == 6
        compiled = torch.compile(model)
        for _ in range(2):
            compiled(x).sum().backward()
            plain(x).sum().backward()
            for a, b in zip(model.parameters(), plain.parameters()):
                torch.testing.assert_close(a.grad.full_tensor(), b.grad)
        plain.zero_grad()


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "densenet121"])
def test_models_of_the_stand_in_for_torchvision_are_one_graph(name):
    from rushlight._src.compat.torchvision import models
    found = torch._dynamo.explain(getattr(models, name)().eval())(torch.randn(1, 3, 64, 64))
    assert (found.graph_count, found.graph_break_count) == (1, 0), found.break_reasons
