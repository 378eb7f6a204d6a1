"""Results of large programs lie among temporaries, and where residuals lay, and are tensors of their own afterwards."""
import gc

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.core.native import heap
from rushlight._src.compiler.launch import Launch
from rushlight._src.compiler.layout import MemoryLayout, Parts
from rushlight._src.compiler.places import Temporary

M = 1 << 20


def test_a_result_takes_the_place_of_temporaries_that_are_dead():
    one, two = Temporary(4 * M), Temporary(2 * M)

    class Meta:
        nbytes = 4 * M - 64

    steps = [Launch(0, 1, 1, [(one, 0)]), Launch(0, 1, 1, [(one, 0), (two, 0)]), Launch(0, 1, 1, [(two, 0), (1, 0)])]
    layout = MemoryLayout(steps, 1, [Meta], mixed=True)
    assert len(layout.inside) == 1 and layout.size < 7 * M and layout.at.keys() == {one, two}
    assert MemoryLayout(steps, 1, [Meta]).inside == ()


def test_results_lie_where_residuals_lay_once_they_are_read():
    class Meta:
        nbytes = M - 64

    residuals = Parts(0, [(0, M), (M, M)], 2 * M + 4032, full=True)
    steps = [Launch(0, 1, 1, [(0, 0), (1, 0)]), Launch(0, 1, 1, [(0, M), (2, 0)])]
    layout = MemoryLayout(steps, 1, [Meta, Meta], None, residuals, True)
    assert layout.reused == ((1, 0),)


def layers(depth=6, width=256):
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU())
                                 for _ in range(depth)))


def gradients(model, x):
    model.zero_grad()
    model(x).square().sum().backward()
    return [p.grad for p in model.parameters()]


@pytest.fixture
def setup():
    model = layers()
    return model, torch.compile(model), torch.randn(2048, 256)


def test_gradients_are_right_and_stay_so(setup):
    model, compiled, x = setup
    expected = [g.numpy().copy() for g in gradients(model, x)]
    found = gradients(compiled, x)
    for _ in range(3):
        gradients(compiled, x)  # takes memory that a gradient must not lie in
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a.numpy(), b, rtol=2e-3, atol=1e-2)
    assert len({g.untyped_storage().data_ptr() for g in found}) == len(found)
    assert all(g.untyped_storage().nbytes() == g.nbytes for g in found)


def test_nothing_is_lost(setup):
    model, compiled, x = setup
    for _ in range(2):
        gradients(compiled, x)
    model.zero_grad()
    gc.collect()
    before = heap.live
    for _ in range(3):
        gradients(compiled, x)
    model.zero_grad()
    gc.collect()
    assert heap.live == before


def test_one_gradient_may_outlive_the_others(setup):
    model, compiled, x = setup
    before = heap.live
    kept = gradients(compiled, x)[4]
    value = kept.numpy().copy()
    model.zero_grad()
    gc.collect()
    assert heap.live - before <= kept.nbytes + 4096
    other = [torch.full((256, 256), 7.0) for _ in range(100)]
    assert np.array_equal(kept.numpy(), value) and other[0].sum() == 7 * 65536


def test_a_graph_that_is_retained_gives_the_same_twice(setup):
    model, compiled, x = setup
    loss = compiled(x).square().sum()
    loss.backward(retain_graph=True)
    first = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    loss.backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(first, model.parameters()))


def test_an_error_midway_leaves_nothing_behind():
    table = torch.nn.Embedding(1000, 256)
    head = torch.nn.Linear(256, 1000)
    run = torch.compile(lambda ids: head(torch.relu(head.weight[ids] @ table.weight.T[:, :256])))
    ids = torch.randint(0, 1000, (4000,))
    run(ids)
    gc.collect()
    before = heap.live
    ids[7] = 5000
    for _ in range(3):
        with pytest.raises(IndexError):
            run(ids)
    gc.collect()
    assert heap.live <= before


def in_place(*slots, size=64, later=64):
    """Where a value lies that step 1 writes, beside one that it reads last."""
    read, written = Temporary(size), Temporary(later)
    steps = [Launch(0, 1, 1, [(read, 0)]), Launch(0, 1, 1, [(read, 0), (written, 0), *((read, at) for at in slots)]),
             Launch(0, 1, 1, [(written, 0)])]
    layout = MemoryLayout(steps, 0, [], replaceable=[(1, (written, 0), (read, 0))])
    return layout.at[read] == layout.at[written]


def test_a_value_takes_the_place_of_one_that_is_read_for_the_last_time():
    assert in_place()
    assert not in_place(32)  # the step reads it in another way, too
    assert not in_place(later=128)


def test_a_chain_of_elementwise_kernels_needs_one_place():
    values = [Temporary(64) for _ in range(5)]
    steps = [Launch(0, 1, 1, [(a, 0), (b, 0)])
             for a, b in zip(values, values[1:])] + [Launch(0, 1, 1, [(values[-1], 0)])]
    layout = MemoryLayout(steps, 0, [],
                          replaceable=[(k, (b, 0), (a, 0)) for k, (a, b) in enumerate(zip(values, values[1:]))])
    assert layout.size == 64 and len(set(layout.at.values())) == 1


def test_residuals_are_overwritten_in_place():
    residuals, made = Parts(0, [(0, M)], M, full=True), [Temporary(M), Temporary(M)]
    steps = [Launch(0, 1, 1, [(0, 0), (made[0], 0)]), Launch(0, 1, 1, [(made[0], 0), (made[1], 0)]),
             Launch(0, 1, 1, [(made[1], 0)])]
    layout = MemoryLayout(steps, 1, [], None, residuals,
                    replaceable=[(0, (made[0], 0), (0, 0)), (1, (made[1], 0), (made[0], 0))])
    assert layout.at == {made[0]: (0, 0), made[1]: (0, 0)} and not layout.size


def test_only_kernels_that_read_where_they_write_work_in_place():
    from rushlight._src.compiler.segment import compile_graph
    from rushlight._src.core.kinds import P
    from rushlight._src.core.meta import Meta
    from rushlight._src.graph.graph import Graph
    from rushlight._src.transforms.trace import Trace

    def pairs(body):
        trace = Trace()
        x = trace.input(Meta.of((64, 64), torch.float32))
        with trace:
            result = body(x)
        return [len(step.replaceable) for step in compile_graph(Graph(trace.inputs, trace.nodes, [result.node]),
                                                                "test").steps]

    assert pairs(lambda x: P.exp(x)) == [1]
    assert pairs(lambda x: P.add(x, P.permute(x, dims=(1, 0)))) == [0]
    assert pairs(lambda x: P.flip(x, dims=(0,))) == [0]
    assert pairs(lambda x: P.div(x, P.sum(x, dims=(1,)))) == [1]  # a row is read before it is written
