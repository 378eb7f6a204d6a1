"""Memory shared by the arguments of a call, and the counting of writes to it."""
from __future__ import annotations

from .arguments import tensor_argument
from .language import Args, cast, i64, native
from .objects import Plan, Tensor, counter, mine, state


@native
def shares(plan: Plan, target: Tensor, args: Args) -> bool:
    """True if an argument that is read aliases the memory to be written, in a way that needs a check."""
    same = 0
    for k in range(len(args)):
        argument = args[k]
        kind = type(argument)
        if isinstance(argument, Tensor):
            how = sharing(target, cast(Tensor, argument))
            if how == 2:
                return True
            same += how
        elif kind is list or kind is tuple:
            inner: i64 = len(argument)
            for j in range(inner):
                element = argument[j]
                if isinstance(element, Tensor):
                    how = sharing(target, cast(Tensor, element))
                    if how == 2:
                        return True
                    same += how
    return same > 1 and plan.apart != 0


@native
def sharing(target: Tensor, tensor: Tensor) -> i64:
    """0 for tensors in different memory, 1 for the same elements, 2 where that is not clear at once."""
    a, b = tensor._rush_storage, target._rush_storage
    if a is not b and (a.address + a.nbytes <= b.address or b.address + b.nbytes <= a.address):
        return 0
    return 1 if a is b and tensor._rush_offset == target._rush_offset and tensor._rush_meta is target._rush_meta else 2


@native
def collides(plan: Plan, args: Args) -> bool:
    """True if memory that a program writes is also that of another argument."""
    written = plan.written
    state.search += 1
    search = state.search
    for k in range(len(written)):
        target = cast(Tensor, tensor_argument(args, written[k]))
        check_writable(target)
        target._rush_storage.mark = search
    found = 0
    for k in range(len(args)):
        argument = args[k]
        kind = type(argument)
        if isinstance(argument, Tensor):
            if cast(Tensor, argument)._rush_storage.mark == search:
                found += 1
        elif kind is list or kind is tuple:
            inner: i64 = len(argument)
            for j in range(inner):
                element = argument[j]
                if isinstance(element, Tensor):
                    if cast(Tensor, element)._rush_storage.mark == search:
                        found += 1
    return found != len(written)


@native
def touch(plan: Plan, args: Args) -> None:
    """Notes that a program wrote into arguments."""
    written = plan.written
    for k in range(len(written)):
        target = cast(Tensor, tensor_argument(args, written[k]))
        counter(target).version += 1
        target._rush_storage.writes += 1


@native
def count_writes(args: Args) -> None:
    """Count a write to the memory of each argument: a failed program may have written it."""
    for k in range(len(args)):
        argument = args[k]
        kind = type(argument)
        if isinstance(argument, Tensor):
            count_end(cast(Tensor, argument))
        elif kind is list or kind is tuple:
            inner: i64 = len(argument)
            for j in range(inner):
                element = argument[j]
                if isinstance(element, Tensor):
                    count_end(cast(Tensor, element))


@native
def count_end(target: Tensor) -> None:
    """Notes that a write which was counted before has ended, well or not."""
    if target._rush_storage is not None:
        target._rush_storage.writes += 1


@native
def check_writable(target: Tensor) -> None:
    """Notes that a tensor is about to be written.  Raises for an inference tensor, which only code in inference mode
    may write."""
    if counter(target).version < 0 and mine.inference == 0:
        state.unwritable(target)
    storage = target._rush_storage
    if storage is not None:
        if storage.lent is not None:
            state.copy_lent(storage)
        storage.writes += 1


@native
def count_write(target: Tensor) -> None:
    """Notes that a tensor was written.  Raises as ``check_writable``."""
    check_writable(target)
    counter(target).version += 1
    if target._rush_storage is not None:
        target._rush_storage.writes += 1
