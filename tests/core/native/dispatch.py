"""How long the pieces of an operator call take, compiled and plain: `python -m tests.core.native.dispatch`.

The sample is the hot path in small: find a plan by a tuple of interned metadata, allocate storage and tensor, run a
kernel.
"""

import pathlib
import tempfile
import timeit

from .twins import twins

SOURCE = '''
import ctypes
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)

@native(freelist=64)
class Storage:
    address: i64
    nbytes: i64
    owner: object
    def finalize(self):
        if self.address != 0:
            store_i64(self.address, 0, state.free)
            state.free = self.address

@native(freelist=64, weakref=True, subclassable=True)
class Tensor:
    storage: Storage
    meta: object
    offset: i64
    step: object

@native
class Plan:
    meta: object
    nbytes: i64
    kernel: i64

@native
class State:
    free: i64

state = State()

@native
def acquire(nbytes: i64) -> i64:
    block = state.free
    if block == 0:
        return allocate_pages(nbytes)
    state.free = load_i64(block, 0)
    return block

@native
def empty(meta: object, nbytes: i64) -> Tensor:
    storage = Storage()
    storage.address = acquire(nbytes)
    storage.nbytes = nbytes
    tensor = Tensor()
    tensor.storage = storage
    tensor.meta = meta
    return tensor

@native(binds=True)
class Op:
    plans: dict
    @vectorcall
    def call(self, args: Args, names: tuple) -> object:
        count = len(args)
        key = new_tuple(count + 1)
        values = stack(8)
        for k in range(count):
            tensor: Tensor = args[k]
            tuple_set(key, k, tensor.meta)
            store_i64(values, k, tensor.storage.address + tensor.offset)
        tuple_set(key, count, names)
        plan: Plan = self.plans[filled(key)]
        result = empty(plan.meta, plan.nbytes)
        store_i64(values, count, result.storage.address)
        call_kernel(plan.kernel, values, 0, 1)
        return result

@native
def nothing(a, b):
    return None

@native
def number(a: i64, b: i64) -> i64:
    return a + b
'''


def kernel():
    """The address of a kernel that adds the first 16 floats of two blocks."""
    from rushlight._src.core.native.compiler import build

    build._jit()
    body = """define void @add16(ptr %args, i64 %begin, i64 %end, i64 %worker) {
  %a = load ptr, ptr %args
  %b.at = getelementptr ptr, ptr %args, i64 1
  %b = load ptr, ptr %b.at
  %c.at = getelementptr ptr, ptr %args, i64 2
  %c = load ptr, ptr %c.at
  %x = load <16 x float>, ptr %a, align 4
  %y = load <16 x float>, ptr %b, align 4
  %z = fadd <16 x float> %x, %y
  store <16 x float> %z, ptr %c, align 4
  ret void
}"""
    return build.link(build.optimise(body), ["add16"])["add16"]


def prepare(module, address):
    op, plan, meta = module.Op(), module.Plan(), object()
    plan.meta, plan.nbytes, plan.kernel = meta, 64, address
    op.plans = {(meta, meta, None): plan}
    a, b = module.empty(meta, 64), module.empty(meta, 64)
    module.Tensor.__add__ = op
    return {"op": op, "a": a, "b": b, "m": module, "T": module.Tensor, "number": module.number,
            "nothing": module.nothing}


def main():
    both = twins(pathlib.Path(tempfile.mkdtemp()), SOURCE)
    address = kernel()
    native, plain = prepare(both.native, address), prepare(both.plain, address)
    print(f"{'ns':24} native   plain")
    for statement in ("nothing(a, b)", "number(3, 4)", "T()", "a.meta", "m.empty(None, 64)", "op(a, b)", "a + b"):
        times = [min(timeit.repeat(statement, globals=space, number=count, repeat=7)) / count * 1e9
                 for space, count in ((native, 200_000), (plain, 5_000))]
        print(f"{statement:24} {times[0]:6.1f} {times[1]:7.0f}")


if __name__ == "__main__":
    main()
