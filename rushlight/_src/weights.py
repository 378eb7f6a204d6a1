"""Unpickling of files that may be hostile: only tensors, plain containers, and classes and functions that the user
allowed."""
from __future__ import annotations

import _compat_pickle
import codecs
import collections
import pickle

from .compat.homes import name_in_files
from .core.dtypes import dtype as Dtype
from .core.naming import defining_module
from .core.op import OPS, Op, named

SAFE: dict = {}  # allowed by users: (module, name) -> class or function
BLOCKED = ("sys", "os", "posix", "nt")  # modules whose names are never allowed, whatever the user says
REFUSED = ("Weights only load failed. Unsupported global: GLOBAL {0} was not an allowed global by default, since it "
           "could run any code. If you trust it, allow it by "
           "torch.serialization.add_safe_globals([{1}]), or a whole file from where you trust by weights_only=False.")
PLAIN = {("collections", "OrderedDict"): collections.OrderedDict, ("collections", "Counter"): collections.Counter,
         ("_codecs", "encode"): codecs.encode,
         ("builtins", "set"): set, ("builtins", "bytearray"): bytearray, ("builtins", "complex"): complex}
# opcodes that no file needs
OTHER = (pickle.INST, pickle.OBJ, pickle.NEWOBJ_EX, pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.PERSID, pickle.DUP,
         pickle.POP, pickle.POP_MARK)
DEEPEST = 200  # nesting of hashed tuples: more could exhaust the stack
MAPPINGS, LISTS = (dict, collections.OrderedDict, collections.Counter), (list,)


def add_safe_globals(safe_globals):
    """Allow ``load(weights_only=True)`` to instantiate these classes and call these functions (or (function,
    "module.name") pairs)."""
    for item in safe_globals:
        found, name = item if isinstance(item, tuple) else (item, f"{item.__module__}.{item.__qualname__}")
        if not isinstance(name, str):
            raise TypeError(
                "add_safe_globals() takes classes, functions and pairs of one and its name, not a pair with "
                f"{type(name).__name__}")
        module, _, last = name.rpartition(".")
        SAFE[module, last] = item
        for place in names_in_files(found) if found is item else ():
            SAFE[place] = item
        if isinstance(found, Op):  # name in older files
            SAFE[named.__module__, named.__name__] = allowed_operator, f"{named.__module__}.{named.__name__}"


def names_in_files(found) -> list[tuple[str, str]]:
    """Modules and names under which files store a Rushlight class or function: PyTorch's; in older files its own."""
    place = name_in_files(found)
    if place is None:
        return []
    return [place, (defining_module(found), found.__qualname__)] if isinstance(found, type) else [place]


def allowed_operator(name: str) -> Op:
    """Return the operator of this name.  UnpicklingError unless the user allowed it."""
    found = OPS.get(name)
    if found is None or not any(found is (one[0] if isinstance(one, tuple) else one) for one in SAFE.values()):
        raise pickle.UnpicklingError(REFUSED.format(name, f"torch.{name}"))
    return found


def get_safe_globals() -> list:
    """Classes and functions allowed by ``add_safe_globals``."""
    allowed = {id(item): item for item in SAFE.values()}  # several names may have one object
    return [item for item in allowed.values() if not (isinstance(item, tuple) and item[0] is allowed_operator)]


def clear_safe_globals():
    """Remove all allowed classes and functions; tensors and containers remain."""
    SAFE.clear()


class safe_globals:
    """A block in which ``load(weights_only=True)`` may use these classes and functions."""

    def __init__(self, safe_globals):
        self.allowed = safe_globals

    def __enter__(self):
        self.before = dict(SAFE)
        add_safe_globals(self.allowed)

    def __exit__(self, *exception):
        SAFE.clear()
        SAFE.update(self.before)


def modern(module, name):
    """Return the current name for one of Python 2."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        return _compat_pickle.NAME_MAPPING[module, name]
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


def refuse(reason):
    raise pickle.UnpicklingError(
        f"Weights only load failed: {reason}. If you trust the file, load it with weights_only=False.")


class WeightsUnpickler(pickle._Unpickler):
    """Unpickler of such a pickle; ``known``: (module, name) -> objects allowed in addition to plain containers;
    ``storages(key, dtype)`` returns a storage."""

    dispatch = dict(pickle._Unpickler.dispatch)

    def __init__(self, file, storages, known, encoding="utf-8"):
        super().__init__(file, encoding=encoding)
        self.storages, self.known = storages, known

    def find_class(self, module, name):
        module, name = modern(module, name)
        if module in BLOCKED:
            refuse(f"Trying to load unsupported GLOBAL {module}.{name} whose module {module} is blocked")
        found = PLAIN.get((module, name)) or self.known.get((module, name))
        if found is None and (module, name) in SAFE:
            found = SAFE[module, name]
            found = found[0] if isinstance(found, tuple) else found
        if found is None:
            raise pickle.UnpicklingError(REFUSED.format(f"{module}.{name}", name))
        return found

    def persistent_load(self, saved):
        # strings of Python 2 are bytes where encoding="bytes" is given
        if type(saved) is not tuple or len(saved) not in (5, 6) or saved[0] not in (
                "storage", b"storage") or not isinstance(saved[1], Dtype):
            refuse("it refers to an object that is not a storage")
        return self.storages(*saved[1:])

    # --- checks of callables and of written objects -------------------------------------------------------------------
    def users(self, found) -> bool:
        """True if the user allowed a class or function."""
        return any(found is (one[0] if isinstance(one, tuple) else one) for one in SAFE.values())

    def load_reduce(self):
        found = self.stack[-2]
        if not (any(found is one for table in (PLAIN, self.known) for one in table.values()) or self.users(found)):
            refuse(f"Trying to call reduce for unrecognized function {found!r}")
        shallow(self.stack[-1])
        super().load_reduce()

    def load_newobj(self):
        found = self.stack[-2]
        if not (self.users(found) or any(found is one for one in PLAIN.values() if isinstance(one, type))):
            refuse(f"Can only create new object for classes allowlisted via `add_safe_globals` but got {found!r}")
        shallow(self.stack[-1])
        super().load_newobj()

    def load_build(self):
        target = self.stack[-2]
        if self.users(type(target)):
            return super().load_build()
        state = self.stack.pop()
        if type(target) is not collections.OrderedDict or not isinstance(state, dict):
            refuse(f"Can only build OrderedDict or types allowlisted via `add_safe_globals`, but got {type(target)}")
        vars(target).update(state)

    def load_other(self):
        refuse("it makes an object without naming its class, or by codes of another program")


def shallow(value):
    """UnpicklingError for a value that is nested too deeply to be hashed or compared."""
    level, seen = [value], set()
    for _ in range(DEEPEST):
        level = [part for one in level if isinstance(one, (tuple, list)) and id(one) not in seen
                 and not seen.add(id(one))
                 for part in one]
        if not level:
            return
    refuse(f"it nests values more than {DEEPEST} deep")


def into(kinds, opcode, last):
    """Write to the object that the stack has under the ``last`` values, or under the latest mark for 0, if it is of one
    of these types."""
    load = pickle._Unpickler.dispatch[opcode[0]]

    def checked(self):
        target = self.stack[-1 - last] if last else self.metastack[-1][-1]
        if type(target) not in kinds:
            refuse(f"Can only write to {', '.join(kind.__name__ for kind in kinds)}, but got {type(target)}")
        for key in () if kinds is LISTS else self.stack[-2:-1] if last else self.stack:
            if isinstance(key, tuple):
                shallow(key)
        load(self)
    return checked


WeightsUnpickler.dispatch.update({
    pickle.REDUCE[0]: WeightsUnpickler.load_reduce, pickle.NEWOBJ[0]: WeightsUnpickler.load_newobj,
    pickle.BUILD[0]: WeightsUnpickler.load_build,
    pickle.SETITEM[0]: into(MAPPINGS, pickle.SETITEM, 2), pickle.SETITEMS[0]: into(MAPPINGS, pickle.SETITEMS, 0),
    pickle.ADDITEMS[0]: into((set,), pickle.ADDITEMS, 0),
    pickle.APPEND[0]: into(LISTS, pickle.APPEND, 1), pickle.APPENDS[0]: into(LISTS, pickle.APPENDS, 0),
    **{opcode[0]: WeightsUnpickler.load_other for opcode in OTHER}})


def unsafe_names(text, known) -> list:
    """Names in a pickle that ``WeightsUnpickler`` refuses."""
    import pickletools  # seldom needed

    found, strings = set(), []
    for opcode, argument, _ in pickletools.genops(text):
        if opcode.name == "GLOBAL":
            found.add(modern(*argument.split(" ", 1)))
        elif opcode.name == "STACK_GLOBAL":
            found.add(modern(*strings[-2:]))
        elif isinstance(argument, str):
            strings.append(argument)
    return sorted(f"{module}.{name}" for module, name in found if (module, name) not in PLAIN
                  and (module, name) not in known and (module, name) not in SAFE)
