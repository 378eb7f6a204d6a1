"""The helper functions of compiled modules that raise exceptions (see ``runtime.py``)."""
from . import layout


def text(constant):
    """The functions that raise, and their messages."""
    strings = {
        "no_attribute": "'NoneType' object has no attribute '%U'", "wrong_type": "%U must be %U, not %.200s",
        "index": "index out of range",
        "division": "division by zero", "exceptions": "exceptions must derive from BaseException",
        "unpack": "%zd values to unpack, wanted %zd",
        "arguments": "%U() takes %zd to %zd arguments, got %zd",
        "no_runner": "no program runner was set: call memory.set_program_runner first",
        "shift": "negative shift count", "no_delete": "attribute '%U' cannot be deleted",
    }
    lines = [f'@text.{name} = private constant [{len(value) + 1} x i8] c"{value}\\00"'
             for name, value in strings.items()]
    lines.append(f"""
define internal void @raise_no_attribute(ptr %name) cold noinline nounwind {{
  %class = {constant("AttributeError")}
  call ptr (ptr, ptr, ...) @PyErr_Format(ptr %class, ptr @text.no_attribute, ptr %name)
  ret void
}}
define internal void @raise_wrong_type(ptr %what, ptr %wanted, ptr %o) cold noinline nounwind {{
  %type.at = getelementptr i8, ptr %o, i64 {layout.TYPE}
  %type = load ptr, ptr %type.at
  %name.at = getelementptr i8, ptr %type, i64 24
  %name = load ptr, ptr %name.at
  %class = {constant("TypeError")}
  call ptr (ptr, ptr, ...) @PyErr_Format(ptr %class, ptr @text.wrong_type, ptr %what, ptr %wanted, ptr %name)
  ret void
}}
define internal void @raise_arguments(ptr %name, i64 %least, i64 %most, i64 %count) cold noinline nounwind {{
  %class = {constant("TypeError")}
  call ptr (ptr, ptr, ...) @PyErr_Format(ptr %class, ptr @text.arguments, ptr %name, i64 %least, i64 %most, i64 %count)
  ret void
}}
define internal void @raise_unpack(i64 %count, i64 %wanted) cold noinline nounwind {{
  %class = {constant("ValueError")}
  call ptr (ptr, ptr, ...) @PyErr_Format(ptr %class, ptr @text.unpack, i64 %count, i64 %wanted)
  ret void
}}
define internal void @raise_index() cold noinline nounwind {{
  %class = {constant("IndexError")}
  call void @PyErr_SetString(ptr %class, ptr @text.index)
  ret void
}}
define internal void @raise_division() cold noinline nounwind {{
  %class = {constant("ZeroDivisionError")}
  call void @PyErr_SetString(ptr %class, ptr @text.division)
  ret void
}}
define internal void @raise_shift() cold noinline nounwind {{
  %class = {constant("ValueError")}
  call void @PyErr_SetString(ptr %class, ptr @text.shift)
  ret void
}}
define internal void @raise_no_runner() cold noinline nounwind {{
  %class = {constant("RuntimeError")}
  call void @PyErr_SetString(ptr %class, ptr @text.no_runner)
  ret void
}}
{_raise_object(constant)}""")
    return "\n".join(lines)


def _raise_object(constant):
    """``raise o`` for an instance or a class."""
    return f"""define internal void @raise_object(ptr %o) cold noinline nounwind {{
  %is.instance = call i1 @has_flag(ptr %o, i64 {layout.EXCEPTION})
  br i1 %is.instance, label %instance, label %other
instance:
  %type.at = getelementptr i8, ptr %o, i64 {layout.TYPE}
  %type = load ptr, ptr %type.at
  call void @PyErr_SetObject(ptr %type, ptr %o)
  ret void
other:
  %is.class = call i1 @has_flag(ptr %o, i64 {layout.CLASS})
  br i1 %is.class, label %class, label %wrong
class:
  %flags.at = getelementptr i8, ptr %o, i64 {layout.TYPE_FLAGS}
  %flags = load i64, ptr %flags.at
  %bits = and i64 %flags, {layout.EXCEPTION}
  %fits = icmp ne i64 %bits, 0
  br i1 %fits, label %set, label %wrong
set:
  call void @PyErr_SetNone(ptr %o)
  ret void
wrong:
  %type.error = {constant("TypeError")}
  call void @PyErr_SetString(ptr %type.error, ptr @text.exceptions)
  ret void
}}
"""
