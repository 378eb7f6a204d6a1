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


GATES = [(lambda k: torch.linspace(-1, 1, k * 12).view(k * 4, 3))(k) for k in (4, 3, 1)]
IN_NUMBERS = {  # functions of the root, which take reductions as numbers and parameters in lists
    "kl_div": lambda x: torch.kl_div(x, x.softmax(-1), 1),
    "hinge_embedding_loss": lambda x: torch.hinge_embedding_loss(x, x.sign(), 1.0, 2),
    "poisson_nll_loss": lambda x: torch.poisson_nll_loss(x, x.abs(), True, False, 1e-8, 1),
    "margin_ranking_loss": lambda x: torch.margin_ranking_loss(x, x * 2, x.sign(), 0.1, 1),
    "cosine_embedding_loss": lambda x: torch.cosine_embedding_loss(x, x * 2, x[:, 0].sign(), 0.1, 1),
    "triplet_margin_loss": lambda x: torch.triplet_margin_loss(x, x * 2, x + 1),
    "batch_norm": lambda x: torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False),
    "instance_norm": lambda x: torch.instance_norm(x[None], None, None, None, None, True, 0.1, 1e-5, False),
    "lstm_cell": lambda x: torch.lstm_cell(x, (x.new_zeros(2, 4), x.new_ones(2, 4)), GATES[0],
                                           torch.ones(16, 4))[1],
    "gru_cell": lambda x: torch.gru_cell(x, x.new_ones(2, 4), GATES[1], torch.ones(12, 4)),
    "rnn_tanh_cell": lambda x: torch.rnn_tanh_cell(x, x.new_ones(2, 4), GATES[2], torch.ones(4, 4)),
    "lstm": lambda x: torch.lstm(x[None], (x.new_zeros(1, 2, 4), x.new_ones(1, 2, 4)), [GATES[0], torch.ones(16, 4)],
                                 False, 1, 0.0, False, False, False)[0],
    "native_dropout": lambda x: torch.native_dropout(x, 0.5, False)[0],
    "frobenius_norm": lambda x: torch.frobenius_norm(x, (0, 1)),
    "nuclear_norm": lambda x: torch.nuclear_norm(x),
    "slice_copy": lambda x: torch.slice_copy(x, 1, 0, 2),
    "_shape_as_tensor": lambda x: torch._shape_as_tensor(x) + 1,
    "_masked_softmax": lambda x: torch._masked_softmax(x, x > 0, 1, 0),
    "get_enum": lambda x: x * torch.nn.functional._Reduction.get_enum("sum"),
    "is_compiling": lambda x: x + torch._utils.is_compiling() * 0,
}


@pytest.mark.parametrize("name", IN_NUMBERS)
def test_functions_of_the_root_fit_one_graph(name):
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    found = torch.compile(IN_NUMBERS[name], fullgraph=True)(x)
    assert torch.allclose(found, IN_NUMBERS[name](x), equal_nan=True)


def test_the_default_tensor_type_is_not_set_in_a_graph():
    torch.compile(lambda x: [torch.set_default_tensor_type(torch.DoubleTensor), x][1], backend="eager")(torch.ones(2))
    try:
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
