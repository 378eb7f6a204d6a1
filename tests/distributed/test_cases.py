"""Test cases that run in every rank: what passes, what fails, what is skipped, and what is left behind."""
from __future__ import annotations

import ast
import inspect
import os
import unittest
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import carrier, counting, process_group, threads
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, zeros
from rushlight.distributed.tensor.debug import CommDebugMode
from rushlight.distributed.tensor.debug._comm_mode import operator
from rushlight.testing._internal import common_distributed as cases
from rushlight.testing._internal.distributed._tensor import common_dtensor
from rushlight.testing._internal.distributed.fake_pg import FakeProcessGroup, FakeStore


def total(self):
    x = torch.tensor([self.rank + 1.0])
    dist.all_reduce(x)
    self.assertEqual(x, torch.tensor([sum(range(1, self.world_size + 1)) + 0.0]))


class Processes(cases.MultiProcessTestCase):
    """Not collected: ``outcomes`` runs it."""

    __test__ = False
    world_size = 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def form(self):
        dist.init_process_group("gloo", init_method=f"file://{self.file_name}", rank=self.rank, world_size=2)

    def test_passes(self):
        self.form()
        total(self)

    def test_one_fails_while_the_other_waits(self):
        self.form()
        if self.rank == 1:
            raise KeyError("rank 1")
        dist.barrier()

    def test_is_skipped(self):
        raise unittest.SkipTest("no such host")

    @cases.skip_if_lt_x_gpu(2)
    def test_wants_gpus(self):
        raise AssertionError

    def test_ends(self):
        os._exit(3)


class Together(common_dtensor.DTensorContinuousTestBase):
    __test__ = False
    world_size = 2

    @common_dtensor.with_comms
    def test_first(self):
        total(self)
        mesh = self.build_device_mesh()
        self._test_op(mesh, torch.add, torch.ones(2, 4), torch.ones(2, 4))

    def test_second_skips(self):
        self.skipTest("not now")

    def test_third_fails(self):
        self.assertEqual(self.rank, 0)

    def test_was_not_run(self):
        total(self)


class Threads(cases.MultiThreadedTestCase):
    __test__ = False
    world_size = 3

    def setUp(self):
        super().setUp()
        self._spawn_threads()

    def perThreadSetUp(self):
        self.mine = dist.get_rank()

    def test_passes(self):
        self.assertEqual(self.mine, self.rank)
        total(self)
        self.assertEqualOnRank(self.rank, 1, rank=1)

    def test_one_fails(self):
        if self.rank == 2:
            raise KeyError("rank 2")
        dist.barrier()


def outcomes(case) -> dict:
    """Name of a test -> "passed", or why it was not."""
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    names = [test._testMethodName for test in suite]
    result = unittest.TestResult()
    suite.run(result)
    found = dict.fromkeys(names, "passed")
    found |= {test._testMethodName: text for test, text in (*result.failures, *result.errors)}
    return found | {test._testMethodName: f"skipped: {reason}" for test, reason in result.skipped}


def test_processes():
    found = outcomes(Processes)
    assert found["test_passes"] == "passed"
    assert "Process 1 exited" in found["test_one_fails_while_the_other_waits"]
    assert "KeyError: 'rank 1'" in found["test_one_fails_while_the_other_waits"]
    assert found["test_is_skipped"] == "skipped: no such host"
    assert found["test_wants_gpus"].startswith("skipped: Need at least 2") or torch.cuda.device_count() > 1
    assert "Expected exit code 0 but got 3" in found["test_ends"]


def test_processes_of_a_class():
    found = outcomes(Together)
    assert found["test_first"] == "passed" and found["test_second_skips"] == "skipped: not now"
    assert "Exception in worker process 1" in found["test_third_fails"]
    assert found["test_was_not_run"].startswith("skipped: Previous test failed")
    assert Together.workers is None


def test_threads():
    found = outcomes(Threads)
    assert found["test_passes"] == "passed" and "rank" in found["test_one_fails"]


def test_combinations():
    seen = []
    cases.run_subtests(unittest.TestCase(), {"a": [1, 2], "b": "xy"},
                       lambda **given: seen.append(tuple(given.values())))
    assert seen == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


def test_sequences_of_objects_are_equal_element_by_element():
    case = cases.TestCase()
    case.assertEqual((Shard(0), Replicate()), [Shard(0), Replicate()])
    for other in ([Shard(1), Replicate()], [Shard(0)]):
        with pytest.raises(AssertionError):
            case.assertEqual((Shard(0), Replicate()), other)


def alone(rank: int, size: int):
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)


def test_one_rank_of_many():
    """What arrives of others is what this rank has; shapes and placements are those of the large world."""
    alone(5, 8)
    try:
        x = torch.arange(8.0)
        parts = [torch.zeros(8) for _ in range(8)]
        dist.all_gather(parts, x)
        assert all(torch.equal(part, x) for part in parts)
        out = torch.zeros(1)
        dist.reduce_scatter_tensor(out, x)
        assert out.item() == 5.0
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2, 4))
        found = distribute_tensor(torch.ones(4, 8), mesh, [Shard(0), Shard(1)])
        assert found.to_local().shape == (2, 2) and (found + 1).placements == (Shard(0), Shard(1))
    finally:
        dist.destroy_process_group()
    group = FakeProcessGroup(1, 4)
    assert (group.rank(), group.size()) == (1, 4)


def test_a_process_beside_the_grid():
    """It has nothing of tensors, and knows how they lie."""
    alone(3, 4)
    try:
        mesh = dist.DeviceMesh("cpu", [0, 1])
        made = zeros(4, 3, device_mesh=mesh, placements=[Shard(0)])
        given = distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)])
        for found in (made, given, made + given, torch.zeros_like(given), given.redistribute(mesh, [Replicate()])):
            assert isinstance(found, DTensor) and found.shape == (4, 3) and found.to_local().numel() == 0
        assert (made + given).placements == (Shard(0),)
    finally:
        dist.destroy_process_group()


def test_a_module_is_split_by_functions_of_two_arguments():
    alone(0, 1)
    try:
        mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
        with pytest.warns(FutureWarning, match="Deprecating"):
            module = dist.tensor.distribute_module(
                torch.nn.Linear(3, 2), mesh,
                input_fn=lambda inputs, mesh: DTensor.from_local(inputs[0], mesh, [Shard(0)]),
                output_fn=lambda outputs, mesh: outputs.to_local())
        assert not isinstance(module(torch.ones(4, 3)), DTensor)
        with pytest.raises(ValueError, match="must have the same length"):
            distribute_tensor(torch.ones(3), mesh, [Shard(0), Shard(0)])
        assert distribute_tensor(torch.ones(3, device="meta"), mesh, [Shard(0)]).is_meta
    finally:
        dist.destroy_process_group()


def test_exchanges_are_counted():
    """Redistributions as collectives that return what they give, others as what they are; of this world alone."""
    def member(rank):
        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
        whole = distribute_tensor(torch.ones(4, 4), mesh, [Replicate()])
        functional, plain = torch.ops.c10d_functional, torch.ops.c10d
        with CommDebugMode() as mode:
            split = whole.redistribute(mesh, [Shard(0)])
        assert mode.get_total_counts() == 0
        with mode:
            split.redistribute(mesh, [Shard(1)])
            split.full_tensor()
            DTensor.from_local(torch.ones(4), mesh, [Partial()]).redistribute(mesh, [Replicate()])
            DTensor.from_local(torch.ones(4), mesh, [Partial()]).redistribute(mesh, [Shard(0)])
        assert dict(mode.get_comm_counts()) == {
            functional.all_to_all_single: 1, functional.all_gather_into_tensor: 1, functional.all_reduce: 1,
            functional.reduce_scatter_tensor: 1}
        with mode:
            dist.all_reduce(torch.ones(2))
            if rank == 0:
                dist.send(torch.ones(1), 1)
            else:
                dist.recv(torch.ones(1), 0)
            dist.nn.functional.all_reduce(torch.ones(2))
        found = mode.get_comm_counts()
        assert found[plain.allreduce_] == 1 and found[functional.all_reduce] == 1 and mode.get_total_counts() == 3
        return found[plain.send], found[plain.recv_]
    assert threads.run(2, member) == [(1, 0), (0, 1)]


def test_every_exchange_of_a_group_is_an_operator():
    """What asks a group's engine for anything is counted by the name of an operator that there is."""
    tree = ast.parse(inspect.getsource(process_group))
    callers = {f.name for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)
               if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "exchange"}
    assert callers | {"receive_from"} == set(counting.CALLED)
    for name in (*counting.CALLED.values(), *carrier.COUNTED.values()):
        assert operator(name) is not None
    assert set(carrier.COUNTED) == set(carrier.KINDS)


def test_grids_are_sliced_along_flattened_dimensions():
    alone(5, 8)
    try:
        mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("a", "b", "c"))
        flat = mesh["b", "c"]._flatten("bc")
        assert mesh["bc"] is flat and flat.mesh.tolist() == [4, 5, 6, 7]
        found = mesh["a", "bc"]
        assert found.mesh.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] and found.get_group("bc") is flat.get_group()
        assert found.get_local_rank("bc") == 1 and repr(found) == "DeviceMesh((a=2, bc=4), 'cpu', stride=(4, 1))"
        with pytest.raises(KeyError, match="Invalid mesh_dim_names"):
            mesh["d"]
        with pytest.raises(KeyError, match="ascending"):
            mesh["bc", "a"]
        with pytest.raises(RuntimeError, match="without mesh_dim_names"):
            dist.device_mesh.init_device_mesh("cpu", (8,))["a"]
    finally:
        dist.destroy_process_group()


def test_tensors_are_saved_with_how_they_lie(tmp_path):
    alone(1, 4)
    try:
        mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
        given = distribute_tensor(torch.arange(16.0).reshape(4, 4), mesh, [Shard(0), Replicate()])
        given.requires_grad_()
        path = tmp_path / "file"
        torch.save({"w": given, "p": torch.nn.Parameter(given.detach())}, path)
        for safe in (False, True):
            found = torch.load(path, weights_only=safe)
            assert found["w"].placements == given.placements and found["w"].requires_grad
            assert torch.equal(found["w"].to_local(), given.to_local()) and found["w"].device_mesh == mesh
            assert isinstance(found["p"], torch.nn.Parameter) and found["p"].placements == given.placements
            assert (found["w"] + given).placements == given.placements
            assert found["w"].device_mesh.get_group("a") is mesh.get_group("a")
    finally:
        dist.destroy_process_group()


def test_one_element_is_the_same_everywhere():
    def member(rank):
        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
        given = distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)])
        with pytest.warns(UserWarning, match="numel=1"):
            assert torch.equal((torch.tensor([2.0]) + given).full_tensor(), torch.full((4, 3), 3.0))
        with pytest.raises(RuntimeError, match="mixed"):
            given + torch.ones(3)
        with pytest.raises(ValueError, match="Inconsistent tensor metadata"):
            DTensor.from_local(torch.ones(2 + rank), mesh, [Shard(0)], run_check=True)
        made = distribute_tensor(torch.ones(4, device="meta"), mesh, [Shard(0)])
        return made.is_meta, (made + 1).is_meta, given.is_meta
    assert threads.run(2, member) == [(True, True, False)] * 2


def test_what_is_made_after_a_tensor_has_no_history():
    alone(0, 2)
    try:
        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
        given = distribute_tensor(torch.ones(4, 4, requires_grad=True), mesh, [Shard(0)])
        assert not torch.zeros_like(given).requires_grad and not given.new_ones(4, 4).requires_grad
        made = given.new_empty_strided((4, 4), (4, 1), requires_grad=True)
        made.sum().backward()
        assert isinstance(made.grad, DTensor) and given.grad is None
    finally:
        dist.destroy_process_group()


def test_a_folder_for_all_ranks():
    from rushlight.testing._internal.distributed.checkpoint_utils import with_temp_dir

    class Case:
        @with_temp_dir
        def run(self):
            (Path(self.temp_dir) / str(dist.get_rank())).touch()
            dist.barrier()
            self.seen = sorted(os.listdir(self.temp_dir))

    def member(rank):
        case = Case()
        case.run()
        return case.seen, case.temp_dir
    (seen, folder), (_, other) = threads.run(2, member)
    assert seen == ["0", "1"] and folder == other and not os.path.exists(folder)


def test_the_part_of_a_rank():
    from rushlight.distributed.tensor import Replicate, Shard
    from rushlight.distributed.tensor._utils import compute_local_shape_and_global_offset as part

    def member(rank):
        mesh = dist.init_device_mesh("cpu", (2, 2))
        return [part((5, 4), mesh, placements) for placements in ((Shard(0), Shard(-1)), (Shard(0), Shard(0)),
                                                                  (Replicate(), Shard(1)))]
    assert threads.run(4, member)[3] == [((2, 2), (3, 2)), ((1, 4), (4, 0)), ((5, 2), (0, 2))]


def test_one_rank_of_a_world_that_is_not_there():
    from rushlight.testing._internal.distributed.distributed_utils import with_fake_comms
    seen = []

    class Case:
        @with_fake_comms(rank=3, world_size=4)
        def run(self):
            seen.append((dist.get_rank(), dist.get_world_size()))
    Case().run()
    assert seen == [(3, 4)] and not dist.is_initialized()
