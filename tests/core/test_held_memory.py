"""Memory that a program reads while other threads run: it stays although a tensor is given other memory meanwhile."""
import itertools
import threading

import pytest

import rushlight as rl
from rushlight._src.core.native import state
from rushlight._src.core.op import forget as forget_plans

fresh = itertools.count()  # for sizes of which there is no plan yet
SIZE = 1 << 20  # elements: more than any small block, and enough work to release the interpreter lock


def replace(x):
    """Gives a tensor other memory, and takes what it had, if that is free, for something else."""
    x.data = rl.full(x.shape, 2.0)
    return [rl.full(x.shape, 7.0) for _ in range(2)]


def set_memory(x):
    x.set_(rl.full(x.shape, 2.0))
    return [rl.full(x.shape, 7.0) for _ in range(2)]


@pytest.mark.parametrize("change", [replace, set_memory])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("least", [5, SIZE // 8])
def test_tensors_given_other_memory_while_their_call_is_planned(change, count, least):
    size = least + next(fresh)
    forget_plans()  # of other tests, which may have had this size
    change(rl.ones(size))  # planned before planning is watched
    tensors, taken, plan = [rl.ones(size) for _ in range(count)], [], state.plan

    def planned(*args):
        made = plan(*args)
        if not taken:
            taken.append("begun")  # what follows may be planned, too
            taken.extend([change(x) for x in tensors])
        return made

    state.plan = planned
    try:
        result = -(tensors[0] * tensors[-1])
    finally:
        state.plan = plan
    assert taken and (result == -1).all(), "read from memory that was free"


def test_tensors_given_other_memory_while_a_program_runs():
    x, ended, wrong = rl.ones(SIZE), threading.Event(), []
    rl.neg(x)

    def compute():
        for _ in range(30):
            least, most = rl.aminmax(rl.neg(x))  # one program reads x
            if least != most or least.item() not in (-1, -2):
                wrong.append((least.item(), most.item()))
        ended.set()

    thread = threading.Thread(target=compute)
    thread.start()
    while not ended.is_set():
        replace(x)
    thread.join()
    assert not wrong
