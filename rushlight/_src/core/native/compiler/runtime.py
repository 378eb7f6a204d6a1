"""The helper functions every compiled module contains: reference counts, conversions between Python and machine values,
checks, errors.

They are written in LLVM IR, as source text with the interpreter's layout substituted. Functions that return a reference
return a new one, or null after setting an exception; `{i64, i1}` pairs carry a failure flag; an `i8` truth is 0, 1, or
2 for failure.
"""

from . import layout, pages, raising
from .ir import COUNTS, INVARIANT, UNLIKELY, VALUES
from .items import dicts, lists, sequences


def text(constants):
    """The IR of all helpers; they refer to their Python constants through `constants`."""
    constant = lambda name: f"load ptr, ptr {constants.address('builtin', name)}, {INVARIANT}"
    return "".join([
        _COUNTING_IMMORTAL if layout.IMMORTAL else _COUNTING, _RARELY, _WATCHER,
        _unboxing(constant), _truth(constant), _checks(constant), sequences(constant), lists(constant), dicts(constant),
        _arithmetic(constant), raising.text(constant), pages.text(),
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
# a watcher of dicts, as CPython calls it: counts their changes
_WATCHER = """
@dict_changes = global i64 0
define i32 @watch_dict(i32 %event, ptr %dict, ptr %key, ptr %value) nounwind {
  %n = load i64, ptr @dict_changes
  %m = add i64 %n, 1
  store i64 %m, ptr @dict_changes
  ret i32 0
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
    """Unboxing of Python numbers: small ints and floats inline, everything else through the C API."""
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
