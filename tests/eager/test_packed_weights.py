"""Packed copies of weights: they are used again while a weight stays as it is, and never once it was written."""
import copy
import ctypes
import gc
import io
import random
import threading

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._src.core.native import weights
from rushlight._src.core.op import forget
from rushlight._src.core.settings import settings

kept = weights.kept


@pytest.fixture(autouse=True)
def checked():
    """Whether a copy is stale is what these tests find out themselves."""
    with settings.set(verify=False):
        kept.checked = 0
        yield
    kept.checked = 1


def product(weight):
    return F.linear(torch.ones(512, weight.shape[1]), weight)


def convolved(weight):
    return F.conv2d(torch.ones(1, weight.shape[1], 7, 7), weight, padding=1)


def used(call) -> bool:
    """Whether a call reads a packed copy that was there before."""
    before = kept.used
    call()
    return kept.used > before


LAYERS = {"product": (product, (64, 768)), "convolution": (convolved, (64, 64, 3, 3))}


def packed_weight(kind, leaf=False):
    """A weight that has been packed, and what computes with it."""
    call, shape = LAYERS[kind]
    weight = torch.randn(shape)
    if leaf:
        weight = torch.nn.Parameter(weight)
    with torch.no_grad():
        for _ in range(4):
            call(weight)
        assert used(lambda: call(weight)), "nothing was packed: the test would show nothing"
    return call, weight


def expected(call, weight):
    """What a weight gives of which nothing is kept: a fresh copy."""
    with torch.no_grad():
        return call(torch.empty_like(weight).copy_(weight.detach()))


def check(call, weight):
    """A weight that was written gives what it is now, at once and later."""
    with torch.no_grad():
        for _ in range(5):
            assert torch.equal(call(weight), expected(call, weight))


@pytest.mark.parametrize("kind", LAYERS)
def test_the_same_to_the_bit_before_and_after(kind):
    call, shape = LAYERS[kind]
    weight = torch.randn(shape)
    with torch.no_grad():
        results = [call(weight) for _ in range(6)]
    assert all(torch.equal(r, results[0]) for r in results)


def wrote_by_numpy(weight):
    weight.detach().numpy()[...] = 2.0


def wrote_by_dlpack(weight):
    torch.from_dlpack(weight.detach()).fill_(3.0)


def wrote_by_pointer(weight):
    ctypes.memset(weight.data_ptr(), 0, weight.numel() * 4)


def wrote_by_storage_pointer(weight):
    ctypes.memset(weight.untyped_storage().data_ptr(), 0, weight.numel() * 4)


def wrote_by_thread(weight):
    thread = threading.Thread(target=lambda: weight.data.mul_(2))
    thread.start()
    thread.join()


def wrote_compiled(weight):
    torch.compile(lambda w: w.mul_(3.0).add_(1.0))(weight)


def wrote_and_failed(weight):
    place = torch.tensor([0, 10 ** 6])
    with pytest.raises((IndexError, RuntimeError)):
        weight.index_put_((place,), torch.zeros(2, *weight.shape[1:]))


def wrote_parts(weight):
    part = weight.view(-1)[5:6]
    part.fill_(7.0)


def wrote_loaded(weight):
    file = io.BytesIO()
    torch.save(torch.full(tuple(weight.shape), 5.0), file)
    file.seek(0)
    weight.copy_(torch.load(file))


def wrote_many(weight):
    torch._foreach_mul_([weight, torch.ones(3)], 0.5)


def wrote_by_out(weight):
    torch.mul(torch.ones(tuple(weight.shape)), 4.0, out=weight)


def wrote_by_set(weight):
    weight.set_(torch.randn(tuple(weight.shape)))


def wrote_behind_set(weight):
    other = torch.empty(0).set_(weight.untyped_storage(), 0, tuple(weight.shape))
    other.add_(1.0)


def wrote_data(weight):
    weight.data.add_(1.0)


def wrote_given_data(weight):
    weight.data = torch.randn(tuple(weight.shape))
    weight.data[0] = 1.0


def wrote_detached(weight):
    weight.detach().sub_(0.5)


def wrote_storage(weight):
    weight.untyped_storage().fill_(0)


def wrote_storage_part(weight):
    weight.untyped_storage()[0:64].fill_(0)


def wrote_resized(weight):
    storage = weight.untyped_storage()
    storage.resize_(storage.nbytes() * 2)
    weight.mul_(2.0)


def wrote_shared(weight):
    weight.share_memory_()
    weight.add_(1.0)


def wrote_swapped(weight):
    torch.utils.swap_tensors(weight, torch.randn(tuple(weight.shape)))


def wrote_random(weight):
    torch.nn.init.kaiming_uniform_(weight)


def wrote_masked(weight):
    weight[weight > 0] = 0.25


def wrote_in_inference_mode(weight):
    with torch.inference_mode():
        weight.mul_(1.5)


def wrote_transposed(weight):
    weight.transpose(0, 1).copy_(torch.ones(tuple(weight.transpose(0, 1).shape)))


def wrote_mapped(weight):
    torch.func.vmap(lambda w: w.add_(1.0))(weight)


def wrote_bytes(weight):
    weight.view(torch.int32).bitwise_xor_(1 << 20)


def wrote_apply(weight):
    weight.view(-1)[:3].apply_(lambda value: value + 1.0)


def wrote_interface(weight):
    np.asarray(weight)[:] = 1.0


WRITES = [value for name, value in list(globals().items()) if name.startswith("wrote_")]
# after these a storage is packed at each call
SHOWING = [wrote_by_numpy, wrote_by_dlpack, wrote_by_pointer, wrote_by_storage_pointer, wrote_storage_part,
           wrote_resized, wrote_shared, wrote_apply, wrote_interface, wrote_and_failed]


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("write", WRITES, ids=lambda one: one.__name__)
def test_a_write_is_seen(kind, write):
    call, weight = packed_weight(kind)
    with torch.no_grad():
        write(weight)
    check(call, weight)


@pytest.mark.parametrize("show", [lambda w: w.numpy(), lambda w: torch.from_dlpack(w), np.asarray,
                                  lambda w: w.view(-1)[3:].numpy()])
def test_what_arrays_show_is_not_kept(show):
    call, weight = packed_weight("product")
    array = show(weight)
    for value in (1.0, 2.0, 3.0):
        for _ in range(4):
            assert not used(lambda: check(call, weight))
        array[...] = value
        check(call, weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [24, 200])
def test_parameters_are_packed_apart_without_gradients(rows, dtype):
    layer, x = torch.nn.Linear(520, 72).to(dtype), torch.randn(rows, 520).to(dtype)
    compiled = torch.compile(layer)
    wanted = layer(x).detach()  # with gradients
    with torch.no_grad():
        results = [call(x) for call in (layer, compiled) for _ in range(6)]
    assert all(torch.equal(r, wanted) for r in results)
    with torch.no_grad():
        layer.weight.mul_(2)
        layer.bias.mul_(2)
        assert torch.equal(compiled(x), wanted * 2) and torch.equal(layer(x), wanted * 2)


@pytest.mark.parametrize("kind", LAYERS)
def test_plans_from_disk_read_copies_too(kind, tmp_path):
    call, shape = LAYERS[kind]
    with settings.set(store=True, cache=str(tmp_path)):
        found = []
        for _ in range(2):  # as another process: the second finds the plan
            forget()
            weight = torch.ones(shape)
            with torch.no_grad():
                found.append([call(weight) for _ in range(4)])
                assert used(lambda: call(weight))
                weight.mul_(2)
                found[-1].append(call(weight) / 2)
        assert list((tmp_path / "plan").rglob("*/*"))
    assert all(torch.equal(a, found[0][0]) for results in found for a in results)


@pytest.mark.parametrize("kind", LAYERS)
def test_two_threads_of_kernels(kind):
    call, weight = packed_weight(kind)
    wanted = call(weight.detach())
    torch.set_num_threads(2)
    try:
        with torch.no_grad():
            for _ in range(5):
                assert torch.allclose(call(weight), wanted, atol=1e-4)
            weight.zero_()
            assert not call(weight).any()
    finally:
        torch.set_num_threads(1)


def test_weights_of_inference_mode():
    with torch.inference_mode():
        weight = torch.randn(64, 768)
        for value in range(3):
            for _ in range(5):
                assert torch.equal(product(weight), product(weight.clone()))
            weight.add_(1.0)


def test_memory_of_arrays_is_not_kept():
    array = np.ones((64, 768), np.float32)
    weight = torch.from_numpy(array)
    for value in (1.0, 2.0, 3.0):
        array[...] = value
        for _ in range(4):
            assert not used(lambda: check(product, weight))


def test_looking_at_a_weight_leaves_its_copies():
    call, weight = packed_weight("product")
    repr(weight), weight[0, 0].item(), weight.sum().item(), weight[:2, :2].tolist(), copy.deepcopy(weight)
    torch.save(weight, io.BytesIO())
    assert used(lambda: call(weight))


@pytest.mark.parametrize("options", [{"foreach": True}, {"foreach": False}, {"fused": True}], ids=str)
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_steps_of_optimizers_are_seen(name, options):
    call, weight = packed_weight("product", leaf=True)
    optimizer = getattr(torch.optim, name)([weight], lr=0.1, **options)
    for _ in range(4):
        for _ in range(3):
            call(weight).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        check(call, weight)


@pytest.mark.parametrize("assign", [False, True])
def test_loaded_states_are_seen(assign):
    layer = torch.nn.Linear(768, 64)
    for _ in range(3):
        for _ in range(4):
            with torch.no_grad():
                product(layer.weight)
        other = torch.nn.Linear(768, 64)
        layer.load_state_dict(other.state_dict(), assign=assign)
        check(product, layer.weight)
        assert torch.equal(product(layer.weight), product(other.weight))


def test_compiled_models_see_writes():
    model = torch.nn.Sequential(torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.Flatten(),
                                torch.nn.Linear(64 * 49, 10)).eval()
    compiled, x = torch.compile(model), torch.randn(1, 64, 7, 7)
    with torch.no_grad():
        for step in range(6):
            for _ in range(3):
                result = compiled(x)
            assert torch.allclose(result, model(x), atol=1e-5)
            for p in model.parameters():
                p.data.add_(0.01 * step)


def test_gradients_with_packed_weights():
    weight, x = torch.nn.Parameter(torch.randn(64, 64, 3, 3)), torch.randn(1, 64, 7, 7, requires_grad=True)
    found = []
    for _ in range(5):
        x.grad = weight.grad = None
        F.conv2d(x, weight, padding=1).square().sum().backward()
        found.append((x.grad, weight.grad))
    assert all(torch.equal(a, b) for pair in found for a, b in zip(pair, found[0]))


def test_a_copy_goes_with_its_storage():
    gc.collect()
    before = kept.bytes
    call, weight = packed_weight("product")
    assert kept.bytes > before
    view = weight[:5]
    del weight
    assert kept.bytes > before
    del view
    assert kept.bytes == before


def test_copies_are_bounded():
    call, weight = packed_weight("product")
    most, kept.most = kept.most, 0
    try:
        other = torch.randn(64, 768)
        before = kept.bytes
        for _ in range(5):
            assert torch.equal(call(other), expected(call, other))
        assert kept.bytes == before
    finally:
        kept.most = most


def test_weights_that_change_each_time_are_soon_left_alone():
    _, shape = LAYERS["product"]
    weight = torch.randn(shape)
    before = kept.made
    with torch.no_grad():
        for _ in range(64):
            product(weight), product(weight)
            weight.add_(1.0)
    assert kept.made - before < 12


def test_threads_write_and_read():
    call, weight = packed_weight("product")
    errors, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            result = call(weight)
            first = result[0, 0].item()
            if not torch.isfinite(result).all() or first != first:
                errors.append(first)

    with torch.no_grad():
        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for value in range(30):
            weight.fill_(float(value))
        stop.set()
        for thread in threads:
            thread.join()
        check(call, weight)
        assert call(weight)[0, 0].item() == 29.0 * 768
    assert not errors


def test_the_check_finds_a_write_that_was_not_counted():
    call, weight = packed_weight("product")
    kept.checked = 1
    call(weight)  # the copy is made anew, in memory that can be compared
    ctypes.memset(weight._rush_storage.address, 0, 64)
    with pytest.raises(AssertionError, match="stale"):
        call(weight)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", LAYERS)
def test_random_writes_between_calls(kind, seed):
    """Several weights, written in any way and order, between uncompiled and compiled calls."""
    choose, (call, shape) = random.Random(seed), LAYERS[kind]
    compiled = torch.compile(call)
    made, before = [torch.randn(shape) for _ in range(3)], kept.used
    counted = [write for write in WRITES if write not in SHOWING]
    with torch.no_grad():
        for _ in range(40):
            at = choose.randrange(3)
            weight = made[at]
            for _ in range(choose.randrange(4)):
                choose.choice((call, compiled))(weight)
            what = choose.random()
            if what < 0.5:
                choose.choice(counted)(weight)
            elif what < 0.6:
                choose.choice(WRITES)(weight)
            elif what < 0.7:
                made[at] = torch.randn(shape)
            if choose.random() < 0.3:
                weight.clamp_(-2, 2)
            for one in made:
                for run in (call, compiled):
                    assert torch.equal(run(one), expected(run, one))
    assert kept.used > before
