"""Publish compiled code: real types and built-in functions replace the plain ones in their modules."""

import ctypes
import functools
import sys

from ...platform import here
from .. import dicts, memory
from . import entries

_python = ctypes.pythonapi
_alive = []  # objects that the interpreter keeps pointers to

READ_ONLY = 1
MEMBER = {"i64": 19, "f64": 4, "bool": 14, "object": 6}  # T_PYSSIZET, T_DOUBLE, T_BOOL, T_OBJECT
DEFAULT, BASE, GC, VECTORCALL, BINDS = 0, 1 << 10, 1 << 14, 1 << 11, 1 << 17
SLOT = {"clear": 51, "dealloc": 52, "bind": 54, "doc": 56, "methods": 64, "tp_new": 65, "traverse": 71, "members": 72,
        "getset": 73, "call": 50, "get": 58, "set": 69}


class _Member(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t),
                ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class _Property(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p if name in ("name", "doc") else ctypes.c_void_p)
                for name in ("name", "get", "set", "doc", "closure")]


class _Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class _Slot(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("size", ctypes.c_int), ("item_size", ctypes.c_int), ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


_python.PyType_FromSpec.restype = ctypes.py_object
_python.PyType_FromSpec.argtypes = (ctypes.c_void_p,)
_python.PyCFunction_NewEx.restype = ctypes.py_object
_python.PyCFunction_NewEx.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object)
_python.Py_IncRef.argtypes = (ctypes.py_object,)


def publish(program, addresses):
    """Replace the plain classes, functions and instances in the namespaces of the program's modules by native ones."""
    twins = {id(declared.plain): _type(program, declared, addresses) for declared in program.classes.values()}
    twins |= {id(declared.plain): _function(declared, addresses) for declared in program.functions.values()}
    _replace(program, twins)
    _fill(program, addresses["objects"])
    _convert_instances(program, twins)
    _replace(program, twins)
    _fill(program, addresses["objects"])
    _replace(program, {id(shared): _face(number, shared, twins, addresses)
                       for number, shared in enumerate(program.per_thread.values())})
    for declared in program.classes.values():
        if declared.finalizer is not None:
            del declared.plain.__del__  # the native twin owns the contents of the plain instance
    memory.attach_runner(addresses["program_runner"])
    dicts.attach_watcher(addresses["watch_dict"], addresses["dict_changes"])
    _alive.append((program, twins))


def _replace(program, twins):
    for module in program.modules:
        for name, value in list(vars(module).items()):
            if id(value) in twins:
                setattr(module, name, twins[id(value)])


def _convert_instances(program, twins):
    """Native twins of the plain instances that modules hold, and of those that they refer to."""
    waiting = [value for module in program.modules for value in vars(module).values()]
    pairs = []
    while waiting:
        value = waiting.pop()
        if id(type(value)) in program.classes and id(value) not in twins:
            twins[id(value)] = twins[id(type(value))]()
            pairs.append((value, twins[id(value)]))
            waiting += [getattr(value, name) for name in program.classes[id(type(value))].fields]
    for plain, native in pairs:
        for name in program.classes[id(type(plain))].fields:
            value = getattr(plain, name)
            setattr(native, name, twins.get(id(value), value))


def _fill(program, table):
    """Put the constants where the code looks for them, except plain instances that still wait for their twins; none is
    ever freed."""
    for description, slot in program.constants.slots.items():
        value = _constant(description)
        place = ctypes.c_void_p.from_address(table + 8 * slot)
        if place.value is None and id(type(value)) not in program.classes:
            _python.Py_IncRef(value)
            place.value = id(value)


def _constant(description):
    kind, *rest = description
    if kind == "builtin":
        return getattr(sys.modules["builtins"], rest[0]) if rest[0] not in ("None", "True", "False") else eval(rest[0])
    if kind == "literal":
        value = eval(rest[0])
        return sys.intern(value) if isinstance(value, str) else value
    module, *path = rest
    return functools.reduce(getattr, path, sys.modules[module])


def _face(number, shared, twins, addresses):
    """The Python object for per-thread state: its attributes are those of the calling thread's instance."""
    key = addresses[f"mine.key.{number}"]
    here.thread_key(key)
    shared.become(twins.get(id(shared.kind), shared.kind), functools.partial(here.thread_value, key, None))
    table = (_Slot * 3)(_Slot(SLOT["get"], addresses[f"mine.get.{number}"]),
                        _Slot(SLOT["set"], addresses[f"mine.set.{number}"]))
    name = f"{shared.kind.__module__}.{shared.kind.__name__}OfThread".encode()
    spec = _Spec(name, object.__basicsize__, 0, DEFAULT, table)
    _alive.extend((shared, table, spec, name))
    return _python.PyType_FromSpec(ctypes.addressof(spec))()


def _array(kind, rows):
    array = (kind * (len(rows) + 1))(*(kind(*row) for row in rows))
    _alive.append(array)
    return ctypes.addressof(array)


def _type(program, declared, addresses):
    symbol = declared.symbol
    slots = [(SLOT["tp_new"], addresses[f"tp_new.{symbol}"]), (SLOT["dealloc"], addresses[f"dealloc.{symbol}"])]
    flags = DEFAULT | (BASE if declared.traits.subclassable else 0)
    if declared.collected:
        flags |= GC
        slots += [(SLOT[kind], addresses[f"{kind}.{symbol}"]) for kind in ("traverse", "clear")]
    if declared.call is not None:
        flags |= VECTORCALL | (BINDS if declared.traits.binds else 0)
        slots.append((SLOT["call"], ctypes.cast(_python.PyVectorcall_Call, ctypes.c_void_p).value))
    if declared.traits.binds:
        slots.append((SLOT["bind"], addresses[f"bind.{symbol}"]))
    slots += [(number, addresses[f"slot.{symbol}.{number}"]) for number, _ in entries.slots(program, declared)]
    slots.append((SLOT["members"], _array(_Member, _members(declared))))
    slots.append((SLOT["getset"], _array(_Property, _properties(declared, addresses))))
    slots.append((SLOT["methods"],
                  _array(_Method, [_method(method, addresses) for method in declared.methods.values()
                                   if _is_attribute(method)])))
    doc = ctypes.create_string_buffer(declared.doc.encode())
    slots.append((SLOT["doc"], ctypes.addressof(doc)))
    table = (_Slot * (len(slots) + 1))(*(_Slot(*slot) for slot in slots))
    name = f"{declared.module.__name__}.{declared.name}".encode()
    spec = _Spec(name, declared.size, 0, flags, table)
    _alive.extend((doc, table, spec, name))
    return _python.PyType_FromSpec(ctypes.addressof(spec))


def _is_attribute(method):
    return not (method.is_property or method.vectorcall or entries.is_special(method.name) or method.name == "finalize")


def _members(declared):
    fields = [field for field in declared.fields.values() if field not in declared.checked]
    rows = [(field.name.encode(), MEMBER[field.type.name], field.offset, 0, None) for field in fields]
    names = {"weaklist": b"__weaklistoffset__", "dict": b"__dictoffset__", "vectorcall": b"__vectorcalloffset__"}
    rows += [(names[kind], MEMBER["i64"], offset, READ_ONLY, None) for kind, offset in declared.extras.items()]
    return rows


def _properties(declared, addresses):
    symbol = declared.symbol
    rows = [
        (field.name.encode(), addresses[f"get.{symbol}.{field.name}"], addresses[f"set.{symbol}.{field.name}"], None,
         None)
        for field in declared.checked
    ]
    rows += [
        (method.name.encode(), addresses[f"py.{method.symbol}"], None, method.doc.encode(), None)
        for method in declared.methods.values() if method.is_property
    ]
    if "dict" in declared.extras:
        pair = (ctypes.cast(getattr(_python, f"PyObject_Generic{kind}Dict"), ctypes.c_void_p).value
                for kind in ("Get", "Set"))
        rows.append((b"__dict__", *pair, None, None))
    return rows


def _method(declared, addresses):
    parameters = ["$self"] * bool(declared.owner) + [_shown(parameter)
                                                     for parameter in declared.visible] + ["/"] * bool(declared.visible)
    if declared.star:
        parameters.append(f"*{declared.parameters[-1].name}")
    doc = f"{declared.name}({', '.join(parameters)})\n--\n\n{declared.doc}"
    row = (declared.name.encode(), addresses[f"py.{declared.symbol}"], entries.convention(declared), doc.encode())
    _alive.append(row)
    return row


def _shown(parameter):
    if parameter.default is None:
        return parameter.name
    return f"{parameter.name}={getattr(parameter.default, 'value', '...')!r}"


def _function(declared, addresses):
    method = _Method(*_method(declared, addresses))
    _alive.append(method)
    return _python.PyCFunction_NewEx(ctypes.addressof(method), None, declared.module.__name__)
