"""Results of large programs lie among temporaries, and where residuals lay, and are tensors of their own afterwards."""
import gc

import numpy as np
import pytest

import rushlight as torch
from rushlight.core.native import heap
from rushlight.eager.layout import Layout, Parts, Temporary

M = 1 << 20


def test_a_result_takes_the_place_of_temporaries_that_are_dead():
    one, two = Temporary(4 * M), Temporary(2 * M)

    class Meta:
        nbytes = 4 * M - 64

    steps = [(0, 1, 1, [(one, 0)]), (0, 1, 1, [(one, 0), (two, 0)]), (0, 1, 1, [(two, 0), (1, 0)])]
    layout = Layout(steps, 1, [Meta], mixed=True)
    assert len(layout.inside) == 1 and layout.size < 7 * M and layout.at.keys() == {one, two}
    assert Layout(steps, 1, [Meta]).inside == ()


def test_results_lie_where_residuals_lay_once_they_are_read():
    class Meta:
        nbytes = M - 64

    residuals = Parts(0, [(0, M), (M, M)], 2 * M + 4032, full=True)
    steps = [(0, 1, 1, [(0, 0), (1, 0)]), (0, 1, 1, [(0, M), (2, 0)])]
    layout = Layout(steps, 1, [Meta, Meta], None, residuals, True)
    assert layout.reused == ((1, 0),)


def layers(depth=6, width=256):
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(depth)))


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
