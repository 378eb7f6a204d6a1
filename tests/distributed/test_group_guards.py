"""A compiled function holds for the group it was compiled with: one that is called the same and has other members is
compiled for anew."""
import pytest

import rushlight as torch
import rushlight.distributed._functional_collectives as functional
import rushlight.distributed.nn.functional as nn_functional
from rushlight import distributed as dist
from rushlight.distributed import threads
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor


def rows(rank, size):
    return torch.arange(12.0).reshape(6, 2) + rank


def world(rank, size):
    return rows(rank, size), dist.group.WORLD


def called(rank, size):
    return rows(rank, size), dist.group.WORLD.group_name


def listed(rank, size):
    return rows(rank, size), list(range(size))


def unnamed(rank, size):
    return rows(rank, size), None


def row(rank, size):
    return rows(rank, size), init_device_mesh("cpu", (size,), mesh_dim_names=("d",))


def split(rank, size):
    return distribute_tensor(rows(0, size), row(rank, size)[1], [Shard(0)]), None


def around(x, group):
    return functional.permute_tensor(x, [(k + 1) % group.size() for k in range(group.size())], group)


def reduced_in_place(x, _):
    y = x.clone()
    dist.all_reduce(y)
    return y * 2


def whole_of_parts(x, mesh):
    return DTensor.from_local(x, mesh, [Shard(0)]).redistribute(mesh, [Replicate()]).to_local() * 2


PROGRAMS = {
    "sum": (world, lambda x, group: functional.all_reduce(x, "sum", dist.group.WORLD) * 2),
    "average of a name": (called, lambda x, group: functional.all_reduce(x, "avg", group) * 2),
    "gather": (world, lambda x, group: functional.all_gather_tensor(x, 0, group) * 2),
    "gather of a name": (called, lambda x, group: functional.all_gather_tensor(x, 0, group) * 2),
    "gather of ranks": (listed, lambda x, group: functional.all_gather_tensor(x, 0, group) * 2),
    "gather of a mesh": (row, lambda x, mesh: functional.all_gather_tensor(x, 0, (mesh, 0)) * 2),
    "gather of a row": (row, lambda x, mesh: functional.all_gather_tensor(x, 0, mesh.get_group("d")) * 2),
    "scatter": (called, lambda x, group: functional.reduce_scatter_tensor(x, "sum", 0, group) * 2),
    "exchange": (called, lambda x, group: functional.all_to_all_single(x, None, None, group) * 2),
    "circle": (world, around),
    "broadcast": (called, lambda x, group: functional.broadcast(x, 1, group) * 2),
    "list": (unnamed, lambda x, group: torch.stack(nn_functional.all_gather(x, group)) * 2),
    "to one rank": (unnamed, lambda x, group: nn_functional.reduce(x, 0, group=group) * 2),
    "at one rank": (unnamed, lambda x, group: torch.stack(nn_functional.gather(x, 0, group)) * 2),
    "sizes": (unnamed, lambda x, group: x * dist.get_world_size() + dist.get_rank()),
    "sizes of a group": (world, lambda x, group: x * group.size() + group.rank()),
    "sizes of a mesh": (row, lambda x, mesh: x * mesh.size() + mesh.get_local_rank()),
    "in place": (unnamed, reduced_in_place),
    "parts": (row, whole_of_parts),
    "product of parts": (split, lambda x, _: (x.t() @ x).full_tensor()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_another_group_of_the_same_name(name):
    make, program = PROGRAMS[name]
    compiled = torch.compile(program)

    def member(rank, size):
        given = make(rank, size)
        results = []
        for run in (program, compiled, compiled):
            x = given[0].detach().requires_grad_() if make is unnamed and name != "in place" else given[0]
            y = run(x, *given[1:])
            results.append([y] + ([torch.autograd.grad(y.square().sum(), x)[0]] if x.requires_grad else []))
        for found in results[1:]:
            assert all(map(torch.equal, found, results[0])), (rank, size)
    for size in (2, 3, 2):
        threads.run(size, member, size)


IN_PLACE = {
    "sum": lambda x, new: dist.all_reduce(x),
    "largest, in the input": lambda x, new: dist.all_reduce(x, dist.ReduceOp.MAX, dist.group.WORLD),
    "broadcast": lambda x, new: dist.broadcast(x, 1),
    "gather": lambda x, new: dist.all_gather_into_tensor(new, x[0]),
    "list": lambda x, new: dist.all_gather(list(new.unbind(0)), x[1]),
    "scatter": lambda x, new: dist.reduce_scatter_tensor(x[0], new),
    "scattered list": lambda x, new: dist.reduce_scatter(x[1], [x[0] + k for k in range(dist.get_world_size())]),
    "exchange": lambda x, new: dist.all_to_all_single(new, new + x[0]),
    "ranks": lambda x, new: x.add_(dist.get_rank(dist.group.WORLD)).mul_(dist.get_world_size(dist.group.WORLD)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_collectives_in_place_fit_one_graph(name):
    """Their inputs and results are written as by eager calls; gradients do not go through what they write."""
    def program(x, w):
        y, new = x * 1, (x[:1] * 0 + w).expand(dist.get_world_size(), 4) * 1
        IN_PLACE[name](x, new.detach())
        IN_PLACE[name](y, new)
        return x + y * 2 + new.sum(0) * 3
    compiled = torch.compile(program, fullgraph=True)

    def member(rank, size):
        found = []
        for run in (program, compiled, compiled):
            x, w = torch.arange(8.0).reshape(2, 4) + 10 * rank, torch.arange(4.0, requires_grad=True)
            y = run(x, w)
            found.append((y.detach(), x, torch.autograd.grad(y.sum(), w)[0]))
        return [all(map(torch.equal, one, found[0])) for one in found[1:]]
    for size in (2, 3):
        assert threads.run(size, member, size) == [[True, True]] * size


def test_a_collective_with_a_work_divides_the_program():
    def program(x):
        y = x * 2
        dist.all_reduce(y, async_op=True).wait()
        return y + 1

    def member(rank):
        with pytest.raises(torch._dynamo.exc.Unsupported, match="async_op=True within a compiled program"):
            torch.compile(program, fullgraph=True)(torch.ones(2))
        return torch.compile(program)(torch.ones(2)).tolist()
    assert threads.run(2, member) == [[5, 5]] * 2


def test_a_group_of_two_ranks_is_another_one_than_that_of_all():
    """In one world, too: the same name of an argument, another group each time."""
    compiled = torch.compile(lambda x, name: functional.all_gather_tensor(x, 0, name).sum(0))

    def member(rank):
        pair = dist.new_group([0, 2])
        found = [compiled(torch.ones(1) + rank, dist.group.WORLD.group_name).tolist()]
        if rank != 1:
            found.append(compiled(torch.ones(1) + rank, pair.group_name).tolist())
        return found
    assert threads.run(3, member) == [[6.0, 4.0], [6.0], [6.0, 4.0]]
