"""Pickle functions and classes by value where no import would find them: those of ``__main__``, of functions' bodies
and of modules made by hand, as a scripted program needs whose file another process reads."""
from __future__ import annotations

import abc
import builtins
import dataclasses
import dis
import enum
import functools
import marshal
import sys
import types

from ..serialization import Pickler

VERSION = sys.implementation.cache_tag  # of bytecode, which marshal does not convert
GLOBAL_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
MADE_BY_CLASS = ("__dict__", "__weakref__", "__module__", "__qualname__", "__slots__", "_abc_impl")
MADE_BY_ENUM = ("_member_names_", "_member_map_", "_value2member_map_", "_member_type_", "_use_args_", "_value_repr_",
                "_unhashable_values_", "_hashable_values_", "_unhashable_values_map_", "__new__", "__new_member__",
                "_new_member_", "_generate_next_value_", "_sunder_names_", "_inverted_")
MARKS = {id(value): name for name, value in vars(dataclasses).items()  # fields of dataclasses compare them by identity
         if type(value).__module__ == "dataclasses"}


class EmptyCell:
    """Represents the content of an empty cell."""


class CodePickler(Pickler):
    """Pickle functions and classes that cannot be imported by their code, and the global values that it reads."""

    dispatch = dict(Pickler.dispatch)

    def __init__(self, file):
        super().__init__(file)
        self.namespaces: dict = {}  # id of a function's globals -> (these, the dict that is written for them)

    def reducer_override(self, obj):
        kind = type(obj)
        if kind is types.ModuleType:
            return import_module, (obj.__name__,)
        if id(obj) in MARKS:
            return getattr, (dataclasses, MARKS[id(obj)])
        if kind is types.MappingProxyType:
            return make_proxy, (dict(obj),)
        if kind is types.CellType:
            return make_cell, (), (content_of(obj),), None, None, fill_cell
        if kind is property:
            return property, (obj.fget, obj.fset, obj.fdel, obj.__doc__)
        if kind in (staticmethod, classmethod):
            return kind, (obj.__func__,)
        if kind is functools.cached_property:
            return kind, (obj.func,), obj.attrname, None, None, name_property
        if kind is types.FunctionType and not is_importable(obj):
            return self.reduce_function(obj)
        if isinstance(obj, type) and not is_importable(obj):
            return reduce_enum(obj) if issubclass(obj, enum.Enum) else reduce_class(obj)
        return super().reducer_override(obj)

    def reduce_function(self, obj):
        """Reduce a function; its globals, defaults and cells follow, as they may refer to it."""
        _, namespace = self.namespaces.setdefault(id(obj.__globals__), (obj.__globals__, {
            "__name__": obj.__globals__.get("__name__", obj.__module__)}))
        names = read_names(obj.__code__)
        state = {"globals": {name: obj.__globals__[name] for name in names if name in obj.__globals__},
                 "defaults": obj.__defaults__, "kwdefaults": obj.__kwdefaults__, "module": obj.__module__,
                 "qualname": obj.__qualname__, "doc": obj.__doc__, "annotations": dict(obj.__annotations__),
                 "attributes": dict(vars(obj))}
        imports = [name for name in names_of_modules(obj) if name in sys.modules]
        return (make_function, (VERSION, marshal.dumps(obj.__code__), namespace, obj.__name__, obj.__closure__,
                                imports), state, None, None, fill_function)


def is_importable(obj) -> bool:
    """True if another process finds a class or function by its module and name."""
    found = sys.modules.get(obj.__module__ or "")
    if found is None or obj.__module__ == "__main__":
        return False
    for part in obj.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is obj:
        return True
    return obj in (type(None), type(NotImplemented), type(...)) or obj.__module__ == "builtins"


def codes_of(code):
    """Yield a code object and those of the functions and classes in it."""
    yield code
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            yield from codes_of(value)


def read_names(code) -> list:
    """Return the names of globals that code reads, in order."""
    return list(dict.fromkeys(step.argval for part in codes_of(code) for step in dis.get_instructions(part)
                              if step.opname in GLOBAL_READS))


def names_of_modules(function) -> list:
    """Return the names of submodules that a function may reach as attributes of the modules among its globals."""
    attributes = {name for part in codes_of(function.__code__) for name in part.co_names}
    found, new = [], [value.__name__ for value in map(function.__globals__.get, read_names(function.__code__))
                      if isinstance(value, types.ModuleType)]
    while new:
        new = [f"{module}.{name}" for module in new for name in sorted(attributes) if f"{module}.{name}" in sys.modules]
        found += new
    return found


def content_of(cell):
    """Return the content of a closure's cell; ``EmptyCell`` if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return EmptyCell


def reduce_class(obj):
    """Reduce a class; its attributes follow, as they may refer to it."""
    slots = obj.__dict__.get("__slots__")
    body = {"__module__": obj.__module__, "__qualname__": obj.__qualname__,
            **({} if slots is None else {"__slots__": slots})}
    state = {name: value for name, value in vars(obj).items() if name not in MADE_BY_CLASS
             and not isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))}
    return (make_class, (type(obj), obj.__name__, obj.__bases__, body), state, None, None, fill_class)


def reduce_enum(obj):
    """Reduce an enumeration with its members."""
    members = {name: member._value_ for name, member in obj.__members__.items()}
    state = {name: value for name, value in vars(obj).items()
             if name not in (*MADE_BY_CLASS, *MADE_BY_ENUM, *members)
             and not isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))}
    return (make_enum, (type(obj), obj.__name__, obj.__bases__, members, obj.__module__, obj.__qualname__), state, None,
            None, fill_class)


# --- functions that program files call when they are read -------------------------------------------------------------
def import_module(name):
    """Return a module by its name."""
    __import__(name)
    return sys.modules[name]


def make_function(version, code, namespace, name, closure, imports):
    """Return a function of code that ``CodePickler`` wrote.  RuntimeError for bytecode of another version."""
    if version != VERSION:
        raise RuntimeError(f"the code of {name}() is bytecode of {version}, and this is {VERSION}: read the file with "
                           "the version of Python that wrote it, or put the code into a module that can be imported")
    namespace.setdefault("__builtins__", builtins)
    for module in imports:
        import_module(module)
    return types.FunctionType(marshal.loads(code), namespace, name, None, closure)


def fill_function(function, state):
    """Give a function the attributes that may refer to it."""
    function.__globals__.update(state["globals"])
    function.__defaults__, function.__kwdefaults__ = state["defaults"], state["kwdefaults"]
    function.__module__, function.__qualname__ = state["module"], state["qualname"]
    function.__doc__, function.__annotations__ = state["doc"], state["annotations"]
    vars(function).update(state["attributes"])


def make_proxy(content):
    """Return a read-only dict."""
    return types.MappingProxyType(content)


def make_cell():
    """Return an empty cell of a closure."""
    return types.CellType()


def fill_cell(cell, state):
    """Give a cell its content, if it has one."""
    if state[0] is not EmptyCell:
        cell.cell_contents = state[0]


def name_property(made, name):
    """Give a cached property its name."""
    if name is not None:
        made.__set_name__(None, name)


def make_class(kind, name, bases, body):
    """Return a class without attributes."""
    return types.new_class(name, bases, {"metaclass": kind}, lambda space: space.update(body))


def fill_class(made, state):
    """Give a class its attributes."""
    for name, value in state.items():
        type.__setattr__(made, name, value)
    if isinstance(made, abc.ABCMeta):
        abc.update_abstractmethods(made)


def make_enum(kind, name, bases, members, module, qualname):
    """Return an enumeration with its members."""
    def fill(space):
        for key, value in {"__module__": module, "__qualname__": qualname, **members}.items():
            space[key] = value

    return types.new_class(name, bases, {"metaclass": kind}, fill)
