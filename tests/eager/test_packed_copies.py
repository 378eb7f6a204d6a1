"""Which packed copies of weights are kept: none that was written while it was made, and those that are used."""
import ctypes
import gc
import threading

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._src.core import copies
from rushlight._src.core.devices import cpu
from rushlight._src.core.native import state, weights
from rushlight._src.core.op import forget
from rushlight._src.core.settings import settings
from rushlight._src.eager import weights as eager_weights

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


def used(call) -> bool:
    """Whether a call reads a packed copy that was there before."""
    before = kept.used
    call()
    return kept.used > before


def packed_weight():
    """A weight that has been packed."""
    weight = torch.randn(64, 768)
    with torch.no_grad():
        for _ in range(4):
            product(weight)
        assert used(lambda: product(weight)), "nothing was packed: the test would show nothing"
    return weight


def expected(weight):
    """What a weight gives of which nothing is kept: a fresh copy."""
    with torch.no_grad():
        return product(torch.empty_like(weight).copy_(weight))


def check(weight):
    """A weight that was written gives what it is now, at once and later."""
    with torch.no_grad():
        for _ in range(5):
            assert torch.equal(product(weight), expected(weight))


def known(weight) -> list:
    """What is known of a weight's forms, the last one looked at first."""
    found, one = [], weight.untyped_storage()._tensor._rush_storage.packs
    while one is not None:
        found.append(one)
        one = one.next
    return found


def test_a_write_while_a_copy_is_made_lets_it_not_be_kept():
    weight = packed_weight()
    storage = weight.untyped_storage()._tensor._rush_storage
    found, = known(weight)
    weights.let_go(found)
    room = kept.most
    held = state.make_room
    sought, kept.most = kept.sought, kept.bytes  # no room: the hook is called after packing, as another thread would be

    def meanwhile(nbytes):
        kept.most = room
        weight.fill_(2.0)
        weights.looked_at(storage, found.form, found.address)  # another program notes the write

    state.make_room, kept.sought = meanwhile, kept.clock - weights.PAUSE
    try:
        weights.copy_of(storage, found, 0)
    finally:
        state.make_room, kept.most, kept.sought = held, room, sought
    assert found.writes == storage.writes and found.memory is None
    check(weight)


def test_an_operand_that_was_written_since_it_was_looked_at_is_packed_anew():
    weight = packed_weight()
    storage = weight.untyped_storage()._tensor._rush_storage
    found, = known(weight)
    old = weights.copy_of(storage, found, 0)
    assert old is found.memory
    weight.fill_(2.0)
    assert weights.copy_of(storage, found, 0) is not old


def test_threads_learn_a_program_once(monkeypatch):
    learnt, give_forms = [], eager_weights.give_forms

    def meanwhile(plan, packing):
        learnt.append(packing)
        other = threading.Thread(target=eager_weights.leave_out, args=(plan, packing))
        other.start()
        other.join()
        give_forms(plan, packing)
        owner = packing.owner
        eager_weights.leave_out(plan, packing)
        assert packing.owner is owner

    monkeypatch.setattr(eager_weights, "give_forms", meanwhile)
    forget()
    weight = packed_weight()
    assert learnt and len(set(map(id, learnt))) == len(learnt)
    check(weight)


def test_a_write_that_fails_midway_is_counted_twice():
    weight = torch.zeros(64, 768)
    storage = weight.untyped_storage()._tensor._rush_storage
    place = torch.tensor([0, 1])
    with torch.no_grad():
        weight.index_add_(0, place, torch.ones(2, 768))
        before = storage.writes
        with pytest.raises((IndexError, RuntimeError)):
            weight.index_add_(0, torch.tensor([0, 10 ** 6]), torch.ones(2, 768))
    assert storage.writes >= before + 2


def test_copies_that_no_longer_hold_are_freed():
    gc.collect()
    before = kept.bytes
    weight = packed_weight()
    assert kept.bytes > before
    weight.data_ptr()
    assert kept.bytes == before
    weight = packed_weight()
    weight.add_(1.0)
    found, = known(weight)
    weights.looked_at(weight.untyped_storage()._tensor._rush_storage, weights.Form(), 8)  # another form is asked for
    assert found.memory is None and kept.bytes == before


def test_the_form_looked_at_last_is_the_first():
    weight = torch.ones(64, 768)
    storage, forms = weight.untyped_storage()._tensor._rush_storage, [weights.Form() for _ in range(weights.MOST + 1)]
    for form in forms[:-1]:
        weights.looked_at(storage, form, 8)
    weights.looked_at(storage, forms[0], 8)
    assert known(weight)[0].form is forms[0]
    weights.looked_at(storage, forms[-1], 8)
    left = [one.form for one in known(weight)]
    assert len(left) == weights.MOST and forms[0] in left and forms[1] not in left


def test_copies_that_nobody_uses_make_room():
    gc.collect()
    old = packed_weight()
    most, kept.most = kept.most, kept.bytes
    kept.clock += copies.IDLE + weights.PAUSE
    try:
        weight = torch.randn(64, 768)
        with torch.no_grad():
            for _ in range(4):
                product(weight)
            assert used(lambda: product(weight)) and kept.bytes <= kept.most
    finally:
        kept.most = most
    check(old)


def test_a_lack_of_memory_is_not_the_callers(monkeypatch):
    weight = packed_weight()
    wanted = expected(weight)
    found, = known(weight)
    weights.let_go(found)
    real, found.form.nbytes = found.form.nbytes, 1 << 60  # more than there is
    try:
        with torch.no_grad():
            assert torch.equal(product(weight), wanted)
    finally:
        found.form.nbytes = real
    check(weight)


def test_copies_go_when_memory_is_given_back():
    weight = packed_weight()
    torch.accelerator.empty_cache()
    cpu.provider.trim(0)
    assert kept.bytes == 0
    assert not used(lambda: product(weight)) and used(lambda: product(weight))


def test_copies_go_before_anybody_is_refused_memory():
    weight = packed_weight()
    with pytest.raises(torch.OutOfMemoryError):
        weights.allocate(1 << 60)
    assert kept.bytes == 0
    check(weight)


def test_copies_made_before_verify_was_set_are_not_called_stale():
    weight = torch.randn(72, 768)  # its copy has padding
    with torch.no_grad():
        for _ in range(4):
            product(weight)
        found = known(weight)[0]
        assert found.memory is not None and not found.zeroed
        ctypes.memset(found.memory.address, 0x5A, found.memory.nbytes)  # what lay there may be anything
        kept.checked = 1
        product(weight)
        assert found.zeroed
    check(weight)


def test_a_write_whose_recording_fails_is_counted_at_its_end():
    compiled = torch.compile(lambda state, x: (state.mul_(2.0), (x * x).sum())[1])
    written, x = torch.ones(8, 8), torch.randn(8, 8, requires_grad=True)
    compiled(written, x)
    storage = written.untyped_storage()._tensor._rush_storage
    before = storage.writes

    def refuse(value):
        raise ValueError("refused")

    with torch.autograd.graph.saved_tensors_hooks(refuse, lambda value: value), pytest.raises(ValueError):
        compiled(written, x)
    assert written[0, 0].item() == 4.0 and storage.writes >= before + 2
