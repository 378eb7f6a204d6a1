"""The functions that Python calls: each converts Python objects, calls compiled code, and returns a Python object."""

from functools import partial
from types import SimpleNamespace

from . import layout
from .calls import call
from .declarations import Parameter
from .expressions import choose, item
from .fields import write_reference
from .function import FunctionCompiler
from .types import ARGS, I64, NONE, OBJECT, PERMANENT, TUPLE, Value

NOARGS, ONE, FAST = 4, 8, 128  # METH_NOARGS, METH_O, METH_FASTCALL

# special methods and the type slots they fill, by the shape of the slot's function
BINARY = {
    "add": 7, "sub": 36, "mul": 29, "matmul": 75, "truediv": 37, "floordiv": 12, "mod": 34, "and": 8, "or": 31,
    "xor": 38, "lshift": 28,
    "rshift": 35,
}
DIRECT = {
    **{f"__i{name}__": slot for name, slot in {
        "add": 14, "sub": 23, "mul": 18, "matmul": 76, "truediv": 24, "floordiv": 16, "mod": 21, "and": 15, "or": 20,
        "xor": 25, "lshift": 17,
        "rshift": 22,
    }.items()},
    "__neg__": 30, "__pos__": 32, "__abs__": 6, "__invert__": 27, "__int__": 26, "__float__": 11, "__index__": 13,
    "__repr__": 66,
    "__str__": 70, "__iter__": 62, "__next__": 63, "__getitem__": 5,
}
TRUTH = {"__bool__": 9, "__contains__": 41}
NUMBER = {"__len__": 4, "__hash__": 59}
RICH = ["__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"]


def is_special(name):
    """True if a method fills a type slot instead of being an attribute."""
    return (
        name in DIRECT or name in TRUTH or name in NUMBER or name in RICH or name == "__setitem__"
        or name.strip("_") in BINARY or name.strip("_")[1:] in BINARY and name.startswith("__r")
    )


def convention(declared):
    """CPython's calling convention for the entry of a function."""
    if declared.star or declared.required != len(declared.visible) or len(declared.visible) > 1:
        return FAST
    return ONE if declared.visible else NOARGS


def text(program):
    """The IR of every entry."""
    parts = []
    for declared in program.functions.values():
        parts.append(_entry(program, declared))
    for cls in program.classes.values():
        parts += [_setter(program, cls, field) for field in cls.checked]
        for method in cls.methods.values():
            if method.is_property:
                parts.append(_property(program, method))
            elif method.vectorcall:
                parts.append(_vectorcall(program, method))
            else:
                parts.append(_entry(program, method))
        parts += [emit() for _, emit in slots(program, cls)]
    return "\n".join(parts)


def _function(program, declared, symbol, parameters, result, emit):
    """An exported function with the given C parameters, whose code `emit` makes."""
    signature = SimpleNamespace(
        symbol=symbol, parameters=parameters, result=result, inline=False, owner=declared.owner, node=declared.node,
        name=declared.name
    )
    return FunctionCompiler(program, declared.module, signature, {}, ()).compile_entry(emit)


def _self(declared):
    return Parameter("self", declared.owner.type if declared.owner else OBJECT, None)


def _receiver(f, declared):
    return [f.values["self"]] if declared.owner else []


def _entry(program, declared):
    how = convention(declared)
    argument = Parameter("args", ARGS if how == FAST else OBJECT, None)

    def emit(f):
        given = f.values["args"]
        if how == FAST:
            values = _unpacked(f, declared, given)
        else:
            values = [given] if how == ONE else []
        return f.boxed(call(f, declared, [*_receiver(f, declared), *values]))

    return _function(program, declared, f"py.{declared.symbol}", [_self(declared), argument], OBJECT, emit)


def _unpacked(f, declared, given):
    """The arguments one by one, defaults filled in, converted to their types."""
    most, least = len(declared.visible), declared.required
    few = f.code.op(f"icmp slt i64 {given.length}, {least}")
    many = "false" if declared.star else f.code.op(f"icmp sgt i64 {given.length}, {most}")
    wrong = f.code.op(f"or i1 {few}, {many}")
    f.raise_if(wrong, "raise_arguments", f"ptr {f.literal(declared.name).ir}", f"i64 {least}", f"i64 {most}",
               f"i64 {given.length}")
    values = []
    for position, parameter in enumerate(declared.visible):
        what = f"{declared.name}() argument {parameter.name!r}"
        entry = lambda: f.convert(item(f, given, Value(I64, str(position), constant=position)), parameter.type, what)
        if position < least:
            values.append(entry())
        else:
            present = f.code.op(f"icmp sgt i64 {given.length}, {position}")
            values.append(choose(f, present, entry,
                                 lambda: f.convert(f.value(parameter.default), parameter.type, what)))
    if declared.star:
        rest = f.code.call("i64", "@llvm.smax.i64", f"i64 {f.code.op(f'sub i64 {given.length}, {most}')}", "i64 0")
        values.append(Value(ARGS, f.code.item(given.ir, most), PERMANENT, length=rest))
    return values


def _vectorcall(program, declared):
    """The target of `tp_vectorcall`: arguments pass straight through, keyword values included."""
    symbol = f"py.{declared.symbol}"
    inner = _function(
        program, declared, f"call.{declared.symbol}",
        [_self(declared), Parameter("args", ARGS, None), Parameter("names", TUPLE, None)], OBJECT,
        lambda f: f.boxed(call(f, declared, [f.values["self"], f.values["args"], f.values["names"]])),
    )
    none = program.constants.address("builtin", "None")
    return inner + f"""
define ptr @{symbol}(ptr %self, ptr %args, i64 %flags, ptr %keywords) nounwind {{
  %count = and i64 %flags, 9223372036854775807
  %plain = icmp eq ptr %keywords, null
  br i1 %plain, label %simple, label %named
simple:
  %none = load ptr, ptr {none}, !invariant.load !2
  %a = call ptr @call.{declared.symbol}(ptr %self, ptr %args, i64 %count, ptr %none)
  ret ptr %a
named:
  %more.at = getelementptr i8, ptr %keywords, i64 {layout.SIZE}
  %more = load i64, ptr %more.at
  %all = add i64 %count, %more
  %b = call ptr @call.{declared.symbol}(ptr %self, ptr %args, i64 %all, ptr %keywords)
  ret ptr %b
}}
"""


def _property(program, declared):
    parameters = [_self(declared), Parameter("closure", OBJECT, None)]
    return _function(program, declared, f"py.{declared.symbol}", parameters, OBJECT,
                     lambda f: f.boxed(call(f, declared, [f.values["self"]])))


def _setter(program, cls, field):
    """Assigning a reference field from Python, its type checked; deleting it means None."""
    symbol = f"set.{cls.symbol}.{field.name}"
    declared = SimpleNamespace(owner=cls, node=cls.node, name=field.name, module=cls.module)

    def emit(f):
        value = f.convert(f.values["value"], field.type, f"{cls.name}.{field.name}")
        write_reference(f, f.values["self"], field, value)
        return f.none()

    inner = _function(program, declared, f"check.{symbol}", [_self(declared), Parameter("value", OBJECT, None)], NONE,
                      emit)
    none = program.constants.address("builtin", "None")
    return inner + f"""
define i32 @{symbol}(ptr %self, ptr %value, ptr %closure) nounwind {{
  %gone = icmp eq ptr %value, null
  %none = load ptr, ptr {none}, !invariant.load !2
  %new = select i1 %gone, ptr %none, ptr %value
  %r = call i8 @check.{symbol}(ptr %self, ptr %new)
  %bad = icmp eq i8 %r, 2
  %status = sext i1 %bad to i32
  ret i32 %status
}}
"""


# -- type slots

def slots(program, cls):
    """The special methods of a class: pairs of (slot number, a call for the IR of the function
    `slot.<class>.<number>`)."""
    found = []
    for name, declared in cls.methods.items():
        if name in DIRECT:
            found.append((DIRECT[name], partial(_direct, program, declared, DIRECT[name])))
        elif name in TRUTH:
            found.append((TRUTH[name], partial(_status, program, declared, TRUTH[name], "i32")))
        elif name in NUMBER:
            found.append((NUMBER[name], partial(_status, program, declared, NUMBER[name], "i64")))
    for name, number in BINARY.items():
        if f"__{name}__" in cls.methods or f"__r{name}__" in cls.methods:
            found.append((number, partial(_operator, program, cls, name, number)))
    if any(name in cls.methods for name in RICH):
        found.append((67, partial(_comparisons, program, cls)))
    if "__setitem__" in cls.methods:
        found.append((3, partial(_item_setter, program, cls.methods["__setitem__"])))
    return found


def _parameters(declared):
    return [_self(declared), *(Parameter(parameter.name, OBJECT, None) for parameter in declared.visible)]


def _direct(program, declared, number):
    emit = lambda f: f.boxed(call(f, declared, [f.values[parameter.name] for parameter in _parameters(declared)]))
    return _function(program, declared, f"slot.{declared.owner.symbol}.{number}", _parameters(declared), OBJECT, emit)


def _status(program, declared, number, kind):
    """A slot that returns a C integer, negative for failure."""
    symbol = f"slot.{declared.owner.symbol}.{number}"
    emit = lambda f: f.convert(call(f, declared, [f.values[p.name] for p in _parameters(declared)]), I64,
                               f"the result of {declared.name}")
    inner = _function(program, declared, f"inner.{symbol}", _parameters(declared), I64, emit)
    arguments = ", ".join(f"ptr %{parameter.name}" for parameter in _parameters(declared))
    avoid = "%safe = select i1 %reserved, i64 -2, i64 %n" if declared.name == "__hash__" else "%safe = add i64 %n, 0"
    narrow = f"%r = trunc i64 %chosen to {kind}" if kind != "i64" else "%r = add i64 %chosen, 0"
    return inner + f"""
define {kind} @{symbol}({arguments}) nounwind {{
  %pair = call {{i64, i1}} @inner.{symbol}({arguments})
  %n = extractvalue {{i64, i1}} %pair, 0
  %bad = extractvalue {{i64, i1}} %pair, 1
  %reserved = icmp eq i64 %n, -1
  {avoid}
  %chosen = select i1 %bad, i64 -1, i64 %safe
  {narrow}
  ret {kind} %r
}}
"""


def _attempt(symbol, receiver, other):
    """IR that calls a special method and returns its result unless that is NotImplemented."""
    return f"""
  %r.{symbol} = call ptr @{symbol}(ptr {receiver}, ptr {other})
  %declined.{symbol} = icmp eq ptr %r.{symbol}, %not.implemented
  br i1 %declined.{symbol}, label %drop.{symbol}, label %give.{symbol}
give.{symbol}:
  ret ptr %r.{symbol}
drop.{symbol}:
  call void @decref(ptr %r.{symbol})"""


def _operator(program, cls, name, number):
    """A binary operator: `__op__` if the left operand is of this class, then `__rop__` if the right one is."""
    kind = program.constants.address("global", cls.module.__name__, cls.name)
    parts, body = [], ""
    for prefix, receiver, other in (("", "%a", "%b"), ("r", "%b", "%a")):
        declared = cls.methods.get(f"__{prefix}{name}__")
        if declared is None:
            continue
        symbol = f"operator.{declared.symbol}"
        emit = lambda f, declared=declared: f.boxed(call(f, declared,
                                                         [f.values[p.name] for p in _parameters(declared)]))
        parts.append(_function(program, declared, symbol, _parameters(declared), OBJECT, emit))
        body += f"""
  %ours.{symbol} = call i1 @has_type(ptr {receiver}, ptr %class)
  br i1 %ours.{symbol}, label %try.{symbol}, label %after.{symbol}
try.{symbol}:{_attempt(symbol, receiver, other)}
  br label %after.{symbol}
after.{symbol}:"""
    return "\n".join(parts) + f"""
define ptr @slot.{cls.symbol}.{number}(ptr %a, ptr %b) nounwind {{
  %not.implemented = load ptr, ptr {program.constants.address("builtin", "NotImplemented")}
  %class = load ptr, ptr {kind}{body}
  call void @incref(ptr %not.implemented)
  ret ptr %not.implemented
}}
"""


def _comparisons(program, cls):
    parts, cases, bodies = [], "", ""
    for how, name in enumerate(RICH):
        declared = cls.methods.get(name)
        if declared is None:
            continue
        symbol = f"operator.{declared.symbol}"
        emit = lambda f, declared=declared: f.boxed(call(f, declared,
                                                         [f.values[p.name] for p in _parameters(declared)]))
        parts.append(_function(program, declared, symbol, _parameters(declared), OBJECT, emit))
        cases += f" i32 {how}, label %case{how}"
        bodies += f"case{how}:\n  %r{how} = call ptr @{symbol}(ptr %a, ptr %b)\n  ret ptr %r{how}\n"
    return "\n".join(parts) + f"""
define ptr @slot.{cls.symbol}.67(ptr %a, ptr %b, i32 %how) nounwind {{
  switch i32 %how, label %other [{cases} ]
{bodies}other:
  %not.implemented = load ptr, ptr {program.constants.address("builtin", "NotImplemented")}
  call void @incref(ptr %not.implemented)
  ret ptr %not.implemented
}}
"""


def _item_setter(program, declared):
    symbol = f"slot.{declared.owner.symbol}.3"

    def emit(f):
        call(f, declared, [f.values[parameter.name] for parameter in _parameters(declared)])
        return f.none()

    inner = _function(program, declared, f"inner.{symbol}", _parameters(declared), NONE, emit)
    what = program.constants.address("literal", repr("an item to delete"))
    wanted = program.constants.address("literal", repr("deletable"))
    return inner + f"""
define i32 @{symbol}(ptr %self, ptr %key, ptr %value) nounwind {{
  %gone = icmp eq ptr %value, null
  br i1 %gone, label %delete, label %set
set:
  %r = call i8 @inner.{symbol}(ptr %self, ptr %key, ptr %value)
  %bad = icmp eq i8 %r, 2
  %status = sext i1 %bad to i32
  ret i32 %status
delete:
  %what = load ptr, ptr {what}
  %wanted = load ptr, ptr {wanted}
  call void @raise_wrong_type(ptr %what, ptr %wanted, ptr %self)
  ret i32 -1
}}
"""
