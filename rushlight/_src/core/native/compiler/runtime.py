"""The small functions every compiled module contains: reference counts, conversions between Python and machine values,
checks, errors.

They are written in LLVM IR, as text with the interpreter's layout filled in. Functions that return a reference return a
new one, or null after setting an exception; `{i64, i1}` pairs carry a failure flag; an `i8` truth is 0, 1, or 2 for
failure.
"""

from ..memory import CACHE_LINE, HUGE_PAGE, MADV_HUGEPAGE, PAGE, PRIVATE
from . import layout
from .ir import COUNTS, INVARIANT, UNLIKELY, VALUES

def text(constants):
    """The IR of all helpers; they refer to their Python constants through `constants`."""
    constant = lambda name: f"load ptr, ptr {constants.address('builtin', name)}, {INVARIANT}"
    return "".join([
        _COUNTING_IMMORTAL if layout.IMMORTAL else _COUNTING, _RARELY,
        _unboxing(constant), _truth(constant), _checks(constant), _items(constant), _arithmetic(constant),
        _raising(constant), _memory(constant),
    ])


_DECREF_TAIL = f"""
  br i1 %dead, label %free, label %done, !prof {UNLIKELY}
free:
  call void @_Py_Dealloc(ptr %o)
  br label %done
done:
  ret void
}}
define internal void @xincref(ptr %o) alwaysinline nounwind {{
  %none = icmp eq ptr %o, null
  br i1 %none, label %done, label %count
count:
  call void @incref(ptr %o)
  br label %done
done:
  ret void
}}
define internal void @xdecref(ptr %o) alwaysinline nounwind {{
  %none = icmp eq ptr %o, null
  br i1 %none, label %done, label %count
count:
  call void @decref(ptr %o)
  br label %done
done:
  ret void
}}
"""
_RARELY = """
define internal void @decref_rarely(ptr %o) cold noinline nounwind {
  call void @decref(ptr %o)
  ret void
}
define internal void @xdecref_rarely(ptr %o) cold noinline nounwind {
  call void @xdecref(ptr %o)
  ret void
}
"""
_COUNTING = f"""
define internal void @incref(ptr %o) alwaysinline nounwind {{
  %n = load i64, ptr %o, {COUNTS}
  %m = add i64 %n, 1
  store i64 %m, ptr %o, {COUNTS}
  ret void
}}
define internal void @decref(ptr %o) alwaysinline nounwind {{
  %n = load i64, ptr %o, {COUNTS}
  %m = sub i64 %n, 1
  store i64 %m, ptr %o, {COUNTS}
  %dead = icmp eq i64 %m, 0{_DECREF_TAIL}"""
_COUNTING_IMMORTAL = f"""
define internal void @incref(ptr %o) alwaysinline nounwind {{
  %n = load i32, ptr %o, {COUNTS}
  %mortal = icmp sge i32 %n, 0
  br i1 %mortal, label %count, label %done
count:
  %m = add i32 %n, 1
  store i32 %m, ptr %o, {COUNTS}
  br label %done
done:
  ret void
}}
define internal void @decref(ptr %o) alwaysinline nounwind {{
  %n = load i32, ptr %o, {COUNTS}
  %mortal = icmp sge i32 %n, 0
  br i1 %mortal, label %count, label %done
count:
  %m = sub i32 %n, 1
  store i32 %m, ptr %o, {COUNTS}
  %dead = icmp eq i32 %m, 0{_DECREF_TAIL}"""


def _unboxing(constant):
    """Python numbers to machine numbers: small ints and floats in place, everything else through the C API."""
    if layout.TAGGED_INTS:
        small = "%small = icmp ult i64 %tag, 16\n  %sign.bits = and i64 %tag, 3\n  %sign = sub i64 1, %sign.bits"
    else:
        small = "%shifted = add i64 %tag, 1\n  %small = icmp ult i64 %shifted, 3\n  %sign = add i64 %tag, 0"
    return f"""
define internal {{i64, i1}} @unbox_i64(ptr %o) alwaysinline nounwind {{
  %type.at = getelementptr i8, ptr %o, i64 {layout.TYPE}
  %type = load ptr, ptr %type.at, {VALUES}
  %int = {constant("int")}
  %exact = icmp eq ptr %type, %int
  br i1 %exact, label %look, label %slow
look:
  %tag.at = getelementptr i8, ptr %o, i64 {layout.INT_TAG}
  %tag = load i64, ptr %tag.at, {VALUES}
  {small}
  br i1 %small, label %quick, label %slow
quick:
  %digit.at = getelementptr i8, ptr %o, i64 {layout.INT_DIGIT}
  %digit = load i32, ptr %digit.at, {VALUES}
  %magnitude = zext i32 %digit to i64
  %value = mul i64 %magnitude, %sign
  %r = insertvalue {{i64, i1}} {{i64 0, i1 false}}, i64 %value, 0
  ret {{i64, i1}} %r
slow:
  %s = call {{i64, i1}} @unbox_i64_slow(ptr %o)
  ret {{i64, i1}} %s
}}
define internal {{i64, i1}} @unbox_i64_slow(ptr %o) noinline nounwind {{
  %value = call i64 @PyLong_AsLongLong(ptr %o)
  %suspect = icmp eq i64 %value, -1
  %a = insertvalue {{i64, i1}} {{i64 0, i1 false}}, i64 %value, 0
  br i1 %suspect, label %look, label %good
look:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  %b = insertvalue {{i64, i1}} %a, i1 %failed, 1
  ret {{i64, i1}} %b
good:
  ret {{i64, i1}} %a
}}
define internal {{double, i1}} @unbox_f64(ptr %o) alwaysinline nounwind {{
  %type.at = getelementptr i8, ptr %o, i64 {layout.TYPE}
  %type = load ptr, ptr %type.at, {VALUES}
  %float = {constant("float")}
  %exact = icmp eq ptr %type, %float
  br i1 %exact, label %quick, label %slow
quick:
  %value.at = getelementptr i8, ptr %o, i64 {layout.FLOAT_VALUE}
  %value = load double, ptr %value.at, {VALUES}
  %r = insertvalue {{double, i1}} {{double 0.0, i1 false}}, double %value, 0
  ret {{double, i1}} %r
slow:
  %s = call {{double, i1}} @unbox_f64_slow(ptr %o)
  ret {{double, i1}} %s
}}
define internal {{double, i1}} @unbox_f64_slow(ptr %o) noinline nounwind {{
  %value = call double @PyFloat_AsDouble(ptr %o)
  %suspect = fcmp oeq double %value, -1.0
  %a = insertvalue {{double, i1}} {{double 0.0, i1 false}}, double %value, 0
  br i1 %suspect, label %look, label %good
look:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  %b = insertvalue {{double, i1}} %a, i1 %failed, 1
  ret {{double, i1}} %b
good:
  ret {{double, i1}} %a
}}
"""


def _truth(constant):
    return f"""
define internal i8 @truth(ptr %o) alwaysinline nounwind {{
  %true = {constant("True")}
  %is.true = icmp eq ptr %o, %true
  br i1 %is.true, label %yes, label %other
yes:
  ret i8 1
other:
  %false = {constant("False")}
  %none = {constant("None")}
  %is.false = icmp eq ptr %o, %false
  %is.none = icmp eq ptr %o, %none
  %no = or i1 %is.false, %is.none
  br i1 %no, label %nothing, label %ask
nothing:
  ret i8 0
ask:
  %answer = call i32 @PyObject_IsTrue(ptr %o)
  %failed = icmp slt i32 %answer, 0
  %small = trunc i32 %answer to i8
  %r = select i1 %failed, i8 2, i8 %small
  ret i8 %r
}}
define internal i8 @compare(ptr %a, ptr %b, i32 %how) nounwind {{
  %o = call ptr @PyObject_RichCompare(ptr %a, ptr %b, i32 %how)
  %bad = icmp eq ptr %o, null
  br i1 %bad, label %failed, label %good
failed:
  ret i8 2
good:
  %r = call i8 @truth(ptr %o)
  call void @decref(ptr %o)
  ret i8 %r
}}
define internal i8 @equal(ptr %a, ptr %b, i32 %how) alwaysinline nounwind {{
  %same = icmp eq ptr %a, %b
  br i1 %same, label %quick, label %ask
quick:
  %yes = icmp eq i32 %how, 2
  %r = zext i1 %yes to i8
  ret i8 %r
ask:
  %s = call i8 @compare(ptr %a, ptr %b, i32 %how)
  ret i8 %s
}}
"""


def _checks(constant):
    return f"""
define internal i1 @has_type(ptr %o, ptr %wanted) alwaysinline nounwind {{
  %type.at = getelementptr i8, ptr %o, i64 {layout.TYPE}
  %type = load ptr, ptr %type.at, {VALUES}
  %exact = icmp eq ptr %type, %wanted
  br i1 %exact, label %yes, label %ask
yes:
  ret i1 true
ask:
  %answer = call i32 @PyType_IsSubtype(ptr %type, ptr %wanted)
  %r = icmp ne i32 %answer, 0
  ret i1 %r
}}
define internal i1 @is_exactly(ptr %o, ptr %wanted) alwaysinline nounwind {{
  %type.at = getelementptr i8, ptr %o, i64 {layout.TYPE}
  %type = load ptr, ptr %type.at, {VALUES}
  %exact = icmp eq ptr %type, %wanted
  ret i1 %exact
}}
define internal i1 @has_flag(ptr %o, i64 %flag) alwaysinline nounwind {{
  %type.at = getelementptr i8, ptr %o, i64 {layout.TYPE}
  %type = load ptr, ptr %type.at, {VALUES}
  %flags.at = getelementptr i8, ptr %type, i64 {layout.TYPE_FLAGS}
  %flags = load i64, ptr %flags.at, {VALUES}
  %bits = and i64 %flags, %flag
  %r = icmp ne i64 %bits, 0
  ret i1 %r
}}
"""


def _items(constant):
    """Indexing of tuples and lists, with bounds, in place."""
    return f"""
define internal i64 @place(i64 %index, i64 %size) alwaysinline nounwind {{
  %negative = icmp slt i64 %index, 0
  %from.end = add i64 %index, %size
  %r = select i1 %negative, i64 %from.end, i64 %index
  ret i64 %r
}}
define internal i64 @bound(i64 %index, i64 %size) alwaysinline nounwind {{
  %place = call i64 @place(i64 %index, i64 %size)
  %low = call i64 @llvm.smax.i64(i64 %place, i64 0)
  %r = call i64 @llvm.smin.i64(i64 %low, i64 %size)
  ret i64 %r
}}
define internal ptr @item(ptr %o, i64 %index) nounwind {{
  %size.at = getelementptr i8, ptr %o, i64 {layout.SIZE}
  %tuple = {constant("tuple")}
  %is.tuple = call i1 @is_exactly(ptr %o, ptr %tuple)
  br i1 %is.tuple, label %in.tuple, label %maybe.list
maybe.list:
  %list = {constant("list")}
  %is.list = call i1 @is_exactly(ptr %o, ptr %list)
  br i1 %is.list, label %in.list, label %general
in.tuple:
  %tuple.items = getelementptr i8, ptr %o, i64 {layout.TUPLE_ITEMS}
  br label %look
in.list:
  %list.items.at = getelementptr i8, ptr %o, i64 {layout.LIST_ITEMS}
  %list.items = load ptr, ptr %list.items.at, {VALUES}
  br label %look
look:
  %items = phi ptr [ %tuple.items, %in.tuple ], [ %list.items, %in.list ]
  %size = load i64, ptr %size.at, {VALUES}
  %place = call i64 @place(i64 %index, i64 %size)
  %inside = icmp ult i64 %place, %size
  br i1 %inside, label %found, label %outside
found:
  %at = getelementptr ptr, ptr %items, i64 %place
  %r = load ptr, ptr %at, {VALUES}
  call void @incref(ptr %r)
  ret ptr %r
outside:
  call void @raise_index()
  ret ptr null
general:
  %boxed = call ptr @PyLong_FromLongLong(i64 %index)
  %none = icmp eq ptr %boxed, null
  br i1 %none, label %failed, label %ask
ask:
  %s = call ptr @PyObject_GetItem(ptr %o, ptr %boxed)
  call void @decref(ptr %boxed)
  ret ptr %s
failed:
  ret ptr null
}}
define internal ptr @as_tuple(ptr %o) alwaysinline nounwind {{
  %tuple = {constant("tuple")}
  %exact = call i1 @is_exactly(ptr %o, ptr %tuple)
  br i1 %exact, label %same, label %other
same:
  call void @incref(ptr %o)
  ret ptr %o
other:
  %r = call ptr @PySequence_Tuple(ptr %o)
  ret ptr %r
}}
define internal ptr @list_pop(ptr %o) nounwind {{
  %size.at = getelementptr i8, ptr %o, i64 {layout.SIZE}
  %size = load i64, ptr %size.at, {VALUES}
  %empty = icmp eq i64 %size, 0
  br i1 %empty, label %failed, label %good
failed:
  call void @raise_index()
  ret ptr null
good:
  %items.at = getelementptr i8, ptr %o, i64 {layout.LIST_ITEMS}
  %items = load ptr, ptr %items.at, {VALUES}
  %last = sub i64 %size, 1
  %at = getelementptr ptr, ptr %items, i64 %last
  %r = load ptr, ptr %at, {VALUES}
  store i64 %last, ptr %size.at, {VALUES}
  ret ptr %r
}}
define internal ptr @dict_item(ptr %d, ptr %key) nounwind {{
  %r = call ptr @PyDict_GetItemWithError(ptr %d, ptr %key)
  %missing = icmp eq ptr %r, null
  br i1 %missing, label %why, label %found
found:
  ret ptr %r
why:
  %error = call ptr @PyErr_Occurred()
  %quiet = icmp eq ptr %error, null
  br i1 %quiet, label %absent, label %failed
absent:
  %class = {constant("KeyError")}
  call void @PyErr_SetObject(ptr %class, ptr %key)
  ret ptr null
failed:
  ret ptr null
}}
define internal {{ptr, i1}} @dict_get(ptr %d, ptr %key, ptr %default) alwaysinline nounwind {{
  %r = call ptr @PyDict_GetItemWithError(ptr %d, ptr %key)
  %missing = icmp eq ptr %r, null
  br i1 %missing, label %why, label %found
found:
  %a = insertvalue {{ptr, i1}} {{ptr null, i1 false}}, ptr %r, 0
  ret {{ptr, i1}} %a
why:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  %b = insertvalue {{ptr, i1}} {{ptr null, i1 false}}, ptr %default, 0
  %c = insertvalue {{ptr, i1}} %b, i1 %failed, 1
  ret {{ptr, i1}} %c
}}
"""


def _arithmetic(constant):
    """Python's floor division and remainder on 64-bit integers and doubles."""
    body = lambda operation, wrong, adjust: f"""
  %zero = icmp eq i64 %b, 0
  br i1 %zero, label %failed, label %careful
failed:
  call void @raise_division()
  ret {{i64, i1}} {{i64 0, i1 true}}
careful:
  %minus = icmp eq i64 %b, -1
  br i1 %minus, label %negate, label %divide
negate:
  {wrong}
  %n = insertvalue {{i64, i1}} {{i64 0, i1 false}}, i64 %negated, 0
  ret {{i64, i1}} %n
divide:
  %q = {operation} i64 %a, %b
  %rest = srem i64 %a, %b
  %odd = icmp ne i64 %rest, 0
  %signs = xor i64 %rest, %b
  %differ = icmp slt i64 %signs, 0
  %fix = and i1 %odd, %differ
  %fixed = {adjust}
  %v = select i1 %fix, i64 %fixed, i64 %q
  %r = insertvalue {{i64, i1}} {{i64 0, i1 false}}, i64 %v, 0
  ret {{i64, i1}} %r
}}
"""
    return f"""
define internal {{i64, i1}} @floor_divide(i64 %a, i64 %b) alwaysinline nounwind {{{body("sdiv", "%negated = sub i64 0, %a", "sub i64 %q, 1")}
define internal {{i64, i1}} @remainder(i64 %a, i64 %b) alwaysinline nounwind {{{body("srem", "%negated = add i64 0, 0", "add i64 %q, %b")}
define internal {{double, i1}} @true_divide(double %a, double %b) alwaysinline nounwind {{
  %zero = fcmp oeq double %b, 0.0
  br i1 %zero, label %failed, label %divide
failed:
  call void @raise_division()
  ret {{double, i1}} {{double 0.0, i1 true}}
divide:
  %q = fdiv double %a, %b
  %r = insertvalue {{double, i1}} {{double 0.0, i1 false}}, double %q, 0
  ret {{double, i1}} %r
}}
define internal {{double, i1}} @floor_divide_f64(double %a, double %b) nounwind {{
  %m = call {{double, i1}} @remainder_f64(double %a, double %b)
  %failed = extractvalue {{double, i1}} %m, 1
  br i1 %failed, label %stop, label %divide
stop:
  ret {{double, i1}} %m
divide:
  %rest = extractvalue {{double, i1}} %m, 0
  %whole = fsub double %a, %rest
  %q = fdiv double %whole, %b
  %near = call double @llvm.round.f64(double %q)
  %r = insertvalue {{double, i1}} {{double 0.0, i1 false}}, double %near, 0
  ret {{double, i1}} %r
}}
define internal {{double, i1}} @remainder_f64(double %a, double %b) nounwind {{
  %zero = fcmp oeq double %b, 0.0
  br i1 %zero, label %failed, label %divide
failed:
  call void @raise_division()
  ret {{double, i1}} {{double 0.0, i1 true}}
divide:
  %rest = call double @fmod(double %a, double %b)
  %odd = fcmp one double %rest, 0.0
  %rest.negative = fcmp olt double %rest, 0.0
  %b.negative = fcmp olt double %b, 0.0
  %differ = xor i1 %rest.negative, %b.negative
  %fix = and i1 %odd, %differ
  %moved = fadd double %rest, %b
  %signed = call double @llvm.copysign.f64(double %rest, double %b)
  %exact = select i1 %odd, double %rest, double %signed
  %v = select i1 %fix, double %moved, double %exact
  %r = insertvalue {{double, i1}} {{double 0.0, i1 false}}, double %v, 0
  ret {{double, i1}} %r
}}
"""


def _raising(constant):
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
define internal void @raise_object(ptr %o) cold noinline nounwind {{
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
""")
    return "\n".join(lines)


def _memory(constant):
    return f"""
@program_runner = global ptr null
define internal ptr @allocate_pages(i64 %nbytes) noinline nounwind {{
  %negative = icmp slt i64 %nbytes, 0
  br i1 %negative, label %failed, label %ask
ask:
  %big = icmp sge i64 %nbytes, {HUGE_PAGE}
  br i1 %big, label %map, label %small
small:
  %more = add i64 %nbytes, {CACHE_LINE - 1}
  %lines = and i64 %more, {-CACHE_LINE}
  %rounded = call i64 @llvm.smax.i64(i64 %lines, i64 {CACHE_LINE})
  %block = call ptr @aligned_alloc(i64 {CACHE_LINE}, i64 %rounded)
  %none = icmp eq ptr %block, null
  br i1 %none, label %failed, label %done
map:
  %up = add i64 %nbytes, {PAGE - 1}
  %length = and i64 %up, {-PAGE}
  %longer = add i64 %length, {HUGE_PAGE}
  %enough = icmp sgt i64 %longer, 0
  br i1 %enough, label %reserve, label %failed
reserve:
  %region = call ptr @mmap(ptr null, i64 %longer, i32 3, i32 {PRIVATE}, i32 -1, i64 0)
  %start = ptrtoint ptr %region to i64
  %refused = icmp eq i64 %start, -1
  br i1 %refused, label %failed, label %cut
cut:
  %past = add i64 %start, {HUGE_PAGE - 1}
  %first = and i64 %past, {-HUGE_PAGE}
  %front = sub i64 %first, %start
  %back = sub i64 {HUGE_PAGE}, %front
  %aligned = inttoptr i64 %first to ptr
  %end = getelementptr i8, ptr %aligned, i64 %length
  %leading = icmp ne i64 %front, 0
  br i1 %leading, label %trim, label %rest
trim:
  call i32 @munmap(ptr %region, i64 %front)
  br label %rest
rest:
  call i32 @munmap(ptr %end, i64 %back)
  call i32 @madvise(ptr %aligned, i64 %length, i32 {MADV_HUGEPAGE})
  br label %done
done:
  %address = phi ptr [ %block, %small ], [ %aligned, %rest ]
  ret ptr %address
failed:
  %e = call ptr @PyErr_NoMemory()
  ret ptr null
}}
define internal void @free_pages(ptr %address, i64 %nbytes) noinline nounwind {{
  %big = icmp sge i64 %nbytes, {HUGE_PAGE}
  br i1 %big, label %unmap, label %small
small:
  call void @free(ptr %address)
  ret void
unmap:
  %up = add i64 %nbytes, {PAGE - 1}
  %length = and i64 %up, {-PAGE}
  call i32 @munmap(ptr %address, i64 %length)
  ret void
}}
define internal i8 @run_program(ptr %code, ptr %values, i1 %unlock) nounwind {{
  %runner = load ptr, ptr @program_runner
  %none = icmp eq ptr %runner, null
  br i1 %none, label %failed, label %run
failed:
  call void @raise_no_runner()
  ret i8 2
run:
  br i1 %unlock, label %free, label %held
held:
  call void %runner(ptr %code, ptr %values)
  ret i8 0
free:
  %thread = call ptr @PyEval_SaveThread()
  call void %runner(ptr %code, ptr %values)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i8 0
}}
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.fptosi.sat.i64.f64(double)
declare i64 @llvm.smin.i64(i64, i64)
declare double @llvm.round.f64(double)
declare double @llvm.copysign.f64(double, double)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
