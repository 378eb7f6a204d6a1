"""The functions behind a native type: allocation from a free list, destruction without deep recursion, garbage
collection, field access.

Destroying a long chain would recurse once per object. Beyond a small depth an object is instead put on its class's list
of objects to destroy (linked through the reference count, which is dead by then), and the outermost destruction empties
the lists. The number of active destructions is counted for all threads together: a destruction may run Python, and
another thread destroy meanwhile, so each subtracts what it has added, and the last one to end empties the lists.
"""

from . import layout
from .ir import COUNTS, INVARIANT, UNLIKELY, VALUES

DEPTH = 40  # destructions inside destructions before the rest waits
FREE_SLOT = 74  # Py_tp_free


def text(program):
    """The IR of every class's functions."""
    classes = list(program.classes.values())
    return "\n".join([_drain(classes) if classes else "",
                      *(_Emitter(program, declared).text() for declared in classes)])


def _drain(classes):
    """Destroy the deferred objects, class by class, until none are left."""
    steps, lists = [], []
    for number, declared in enumerate(classes):
        name, following = declared.symbol, f"class{number + 1}" if number + 1 < len(classes) else "round"
        lists.append(f"@waiting.{name} = internal global ptr null")
        steps.append(f"""
class{number}:
  %o{number} = load ptr, ptr @waiting.{name}
  %none{number} = icmp eq ptr %o{number}, null
  br i1 %none{number}, label %{following}, label %take{number}
take{number}:
  %next{number} = load ptr, ptr %o{number}, {COUNTS}
  store ptr %next{number}, ptr @waiting.{name}
  store i64 0, ptr %o{number}, {COUNTS}
  call void @destroy.{name}(ptr %o{number})
  store i1 true, ptr %found
  br label %class{number}""")
    return "\n".join(lists) + f"""
@destroying = internal global i64 0
@postponed = internal global i1 false
define internal void @drain() noinline nounwind {{
entry:
  %found = alloca i1
  store i1 true, ptr %found
  store i1 false, ptr @postponed
  %before = load i64, ptr @destroying
  %during = add i64 %before, 1
  store i64 %during, ptr @destroying
  br label %round
round:
  %again = load i1, ptr %found
  store i1 false, ptr %found
  br i1 %again, label %class0, label %done
{"".join(steps)}
done:
  %now = load i64, ptr @destroying
  %after = sub i64 %now, 1
  store i64 %after, ptr @destroying
  store i1 false, ptr @postponed
  ret void
}}
"""


class _Emitter:
    def __init__(self, program, declared):
        self.program, self.cls, self.name = program, declared, declared.symbol
        address = program.constants.address("global", declared.module.__name__, declared.name)
        self.type = f"load ptr, ptr {address}, {INVARIANT}"
        offsets = [field.offset for field in declared.references]
        self.held = offsets + [offset for kind, offset in declared.extras.items() if kind == "dict"]

    def text(self):
        parts = [self._new(), self._tp_new(), self._dealloc(), self._destroy(), self._clear(), self._traverse()]
        parts += [self._getter(field) for field in self.cls.checked]
        if self.cls.traits.binds:
            parts.append(self._bind())
        return "\n".join(parts)

    def _vectorcall(self, value="%o"):
        if self.cls.call is None:
            return ""
        return f"""
  %call.at = getelementptr i8, ptr {value}, i64 {self.cls.extras["vectorcall"]}
  store ptr @py.{self.cls.call.symbol}, ptr %call.at, {VALUES}"""

    def _new(self):
        """An instance with all fields zero or None: recycled, or from the interpreter's allocator."""
        blank = self.cls.size - layout.HEADER
        return f"""
@free.{self.name} = internal global ptr null
@free.count.{self.name} = internal global i64 0
define internal ptr @new.{self.name}() nounwind {{
  %o = load ptr, ptr @free.{self.name}
  %none = icmp eq ptr %o, null
  br i1 %none, label %fresh, label %reuse, !prof {UNLIKELY}
reuse:
  %next = load ptr, ptr %o, {COUNTS}
  store ptr %next, ptr @free.{self.name}
  %n = load i64, ptr @free.count.{self.name}
  %m = sub i64 %n, 1
  store i64 %m, ptr @free.count.{self.name}
  store i64 1, ptr %o, {COUNTS}
  %fields = getelementptr i8, ptr %o, i64 {layout.HEADER}
  call void @llvm.memset.p0.i64(ptr %fields, i8 0, i64 {blank}, i1 false){self._vectorcall()}
  {"call void @PyObject_GC_Track(ptr %o)" if self.cls.collected else ""}
  ret ptr %o
fresh:
  %type = {self.type}
  %f = call ptr @fresh.{self.name}(ptr %type)
  ret ptr %f
}}
define internal ptr @fresh.{self.name}(ptr %type) noinline nounwind {{
  %o = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %none = icmp eq ptr %o, null
  br i1 %none, label %failed, label %good
good:{self._vectorcall()}
  ret ptr %o
failed:
  ret ptr null
}}"""

    def _tp_new(self):
        """Calling the class from Python: without arguments, unless a subclass takes them or the class defines them."""
        if self.cls.traits.called:
            return self._tp_new_called()
        text = self.program.constants.address("literal", repr(self.cls.name))
        return f"""
define ptr @tp_new.{self.name}(ptr %type, ptr %args, ptr %names) nounwind {{
  %class = {self.type}
  %exact = icmp eq ptr %type, %class
  br i1 %exact, label %look, label %derived
look:
  %size.at = getelementptr i8, ptr %args, i64 {layout.SIZE}
  %size = load i64, ptr %size.at
  %some = icmp ne i64 %size, 0
  %named = icmp ne ptr %names, null
  %wrong = or i1 %some, %named
  br i1 %wrong, label %failed, label %make
make:
  %o = call ptr @new.{self.name}()
  ret ptr %o
failed:
  %name = load ptr, ptr {text}, {INVARIANT}
  call void @raise_arguments(ptr %name, i64 0, i64 0, i64 %size)
  ret ptr null
derived:
  %d = call ptr @fresh.{self.name}(ptr %type)
  ret ptr %d
}}"""

    def _tp_new_called(self):
        """Calling the class, or one derived from it, from Python: with arguments, its ``_rush_construct`` answers."""
        attribute = self.program.constants.address("literal", "'_rush_construct'")
        return f"""
define ptr @tp_new.{self.name}(ptr %type, ptr %args, ptr %names) nounwind {{
  %size.at = getelementptr i8, ptr %args, i64 {layout.SIZE}
  %size = load i64, ptr %size.at
  %some = icmp ne i64 %size, 0
  %named = icmp ne ptr %names, null
  %given = or i1 %some, %named
  br i1 %given, label %ask, label %blank, !prof {UNLIKELY}
blank:
  %class = {self.type}
  %exact = icmp eq ptr %type, %class
  br i1 %exact, label %make, label %derived
make:
  %o = call ptr @new.{self.name}()
  ret ptr %o
derived:
  %d = call ptr @fresh.{self.name}(ptr %type)
  ret ptr %d
ask:
  %text = load ptr, ptr {attribute}, {INVARIANT}
  %answer = call ptr @PyObject_GetAttr(ptr %type, ptr %text)
  %missing = icmp eq ptr %answer, null
  br i1 %missing, label %failed, label %call
call:
  %made = call ptr @PyObject_Call(ptr %answer, ptr %args, ptr %names)
  call void @decref(ptr %answer)
  ret ptr %made
failed:
  ret ptr null
}}"""

    def _dealloc(self):
        untrack = "call void @PyObject_GC_UnTrack(ptr %o)" if self.cls.collected else ""
        if not self.held:
            return (f"define void @dealloc.{self.name}(ptr %o) nounwind "
                    f"{{\n  call void @destroy.{self.name}(ptr %o)\n  ret void\n}}")
        return f"""
define void @dealloc.{self.name}(ptr %o) nounwind {{
  {untrack}
  %depth = load i64, ptr @destroying
  %deep = icmp sgt i64 %depth, {DEPTH}
  br i1 %deep, label %later, label %now, !prof {UNLIKELY}
later:
  %next = load ptr, ptr @waiting.{self.name}
  store ptr %next, ptr %o, {COUNTS}
  store ptr %o, ptr @waiting.{self.name}
  store i1 true, ptr @postponed
  ret void
now:
  %deeper = add i64 %depth, 1
  store i64 %deeper, ptr @destroying
  call void @destroy.{self.name}(ptr %o)
  %now.under.way = load i64, ptr @destroying
  %left = sub i64 %now.under.way, 1
  store i64 %left, ptr @destroying
  %outermost = icmp eq i64 %left, 0
  %more = load i1, ptr @postponed
  %empty = and i1 %outermost, %more
  br i1 %empty, label %drain, label %done, !prof {UNLIKELY}
drain:
  call void @drain()
  ret void
done:
  ret void
}}"""

    def _destroy(self):
        limit = self.cls.traits.freelist
        lines = ["start:"]
        if self.cls.finalizer:
            lines.append(self._finalize())
        if "weaklist" in self.cls.extras:
            lines.append(f"""  %weak.at = getelementptr i8, ptr %o, i64 {self.cls.extras["weaklist"]}
  %weak = load ptr, ptr %weak.at
  %no.weak = icmp eq ptr %weak, null
  br i1 %no.weak, label %strong, label %clear.weak
clear.weak:
  call void @PyObject_ClearWeakRefs(ptr %o)
  br label %strong
strong:""")
        lines.append(self._drop_fields())
        lines.append(f"""  %type.at = getelementptr i8, ptr %o, i64 {layout.TYPE}
  %type = load ptr, ptr %type.at, {VALUES}
  %class = {self.type}
  %exact = icmp eq ptr %type, %class
  br i1 %exact, label %own, label %derived
own:
  %count = load i64, ptr @free.count.{self.name}
  %room = icmp slt i64 %count, {limit}
  br i1 %room, label %keep, label %release
keep:
  %next = load ptr, ptr @free.{self.name}
  store ptr %next, ptr %o, {COUNTS}
  store ptr %o, ptr @free.{self.name}
  %more = add i64 %count, 1
  store i64 %more, ptr @free.count.{self.name}
  ret void
release:
  call void @{"PyObject_GC_Del" if self.cls.collected else "PyObject_Free"}(ptr %o)
  call void @decref(ptr %type)
  ret void
derived:
  %free = call ptr @PyType_GetSlot(ptr %type, i32 {FREE_SLOT})
  call void %free(ptr %o)
  call void @decref(ptr %type)
  ret void""")
        body = "\n".join(lines)
        return f"define internal void @destroy.{self.name}(ptr %o) nounwind {{\n{body}\n}}"

    def _finalize(self):
        """Call `finalize` on the instance brought back for a moment, keeping any exception that is on its way."""
        track = "call void @PyObject_GC_Track(ptr %o)" if self.cls.collected else ""
        return f"""  %error = alloca [3 x ptr]
  %error.value = getelementptr i8, ptr %error, i64 8
  %error.trace = getelementptr i8, ptr %error, i64 16
  %pending = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %pending, null
  br i1 %raised, label %save, label %call
save:
  call void @PyErr_Fetch(ptr %error, ptr %error.value, ptr %error.trace)
  br label %call
call:
  store i64 1, ptr %o, {COUNTS}
  %outcome = call i8 @{self.cls.finalizer.symbol}(ptr %o)
  %bad = icmp eq i8 %outcome, 2
  br i1 %bad, label %report, label %reported
report:
  call void @PyErr_WriteUnraisable(ptr %o)
  br label %reported
reported:
  br i1 %raised, label %restore, label %finalized
restore:
  %e0 = load ptr, ptr %error
  %e1 = load ptr, ptr %error.value
  %e2 = load ptr, ptr %error.trace
  call void @PyErr_Restore(ptr %e0, ptr %e1, ptr %e2)
  br label %finalized
finalized:
  %users = load i64, ptr %o, {COUNTS}
  %left = sub i64 %users, 1
  store i64 %left, ptr %o, {COUNTS}
  %alive = icmp ne i64 %left, 0
  br i1 %alive, label %saved, label %dead
saved:
  {track}
  ret void
dead:"""

    def _drop_fields(self, helper="@xdecref"):
        return "\n".join(f"""  %f{offset}.at = getelementptr i8, ptr %o, i64 {offset}
  %f{offset} = load ptr, ptr %f{offset}.at, {VALUES}
  store ptr null, ptr %f{offset}.at, {VALUES}
  call void {helper}(ptr %f{offset})""" for offset in self.held)

    def _clear(self):
        return (f"define i32 @clear.{self.name}(ptr %o) nounwind "
                f"{{\n{self._drop_fields('@xdecref_rarely')}\n  ret i32 0\n}}")

    def _traverse(self):
        visits = "\n".join(f"""  %f{offset}.at = getelementptr i8, ptr %o, i64 {offset}
  %f{offset} = load ptr, ptr %f{offset}.at, {VALUES}
  %r{offset} = call i32 @visit(ptr %f{offset}, ptr %visit, ptr %arg)
  %s{offset} = icmp ne i32 %r{offset}, 0
  br i1 %s{offset}, label %stop, label %after{offset}
after{offset}:""" for offset in self.held)
        incoming = ", ".join(f"[ %r{offset}, %{'start' if k == 0 else f'after{self.held[k - 1]}'} ]"
                             for k, offset in enumerate(self.held))
        stop = f"stop:\n  %r = phi i32 {incoming}\n  ret i32 %r" if self.held else ""
        return f"""define i32 @traverse.{self.name}(ptr %o, ptr %visit, ptr %arg) nounwind {{
start:
{visits}
  %type.at = getelementptr i8, ptr %o, i64 {layout.TYPE}
  %type = load ptr, ptr %type.at, {VALUES}
  %last = call i32 %visit(ptr %type, ptr %arg)
  ret i32 %last
{stop}
}}"""

    def _getter(self, field):
        none = self.program.constants.address("builtin", "None")
        return f"""define ptr @get.{self.name}.{field.name}(ptr %o, ptr %closure) nounwind {{
  %at = getelementptr i8, ptr %o, i64 {field.offset}
  %v = load ptr, ptr %at, {VALUES}
  %empty = icmp eq ptr %v, null
  %none = load ptr, ptr {none}, {INVARIANT}
  %r = select i1 %empty, ptr %none, ptr %v
  call void @incref(ptr %r)
  ret ptr %r
}}"""

    def _bind(self):
        """Found on a class through an instance, it becomes a bound method."""
        none = self.program.constants.address("builtin", "None")
        return f"""define ptr @bind.{self.name}(ptr %o, ptr %instance, ptr %owner) nounwind {{
  %none = load ptr, ptr {none}, {INVARIANT}
  %a = icmp eq ptr %instance, null
  %b = icmp eq ptr %instance, %none
  %free = or i1 %a, %b
  br i1 %free, label %self, label %bound
self:
  call void @incref(ptr %o)
  ret ptr %o
bound:
  %m = call ptr @PyMethod_New(ptr %o, ptr %instance)
  ret ptr %m
}}"""


def per_thread(program):
    """For each piece of per-thread state, a function that finds the calling thread's instance, and the two that answer
    for it in Python."""
    name = program.constants.address("literal", "'current'")
    return "\n".join(f"""
@mine.key.{number} = global i64 0
define internal ptr @mine.{number}() nounwind {{
  %key = load i64, ptr @mine.key.{number}
  %known = call ptr @thread_value(i64 %key)
  %new = icmp eq ptr %known, null
  br i1 %new, label %ask, label %found
found:
  ret ptr %known
ask:
  %made = call ptr @mine.first.{number}(i64 %key)
  ret ptr %made
}}
define internal ptr @mine.first.{number}(i64 %key) noinline nounwind {{
  %arguments = alloca [2 x ptr]
  %first = getelementptr ptr, ptr %arguments, i64 1
  %all = load ptr, ptr {program.constants.address(*description)}
  store ptr %all, ptr %first
  %name = load ptr, ptr {name}
  %made = call ptr @PyObject_VectorcallMethod(ptr %name, ptr %first, i64 -9223372036854775807, ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %done, label %note
note:
  call void @decref(ptr %made)
  call void @set_thread_value(i64 %key, ptr %made)
  br label %done
done:
  ret ptr %made
}}
define ptr @mine.get.{number}(ptr %face, ptr %name) nounwind {{
  %o = call ptr @mine.{number}()
  %failed = icmp eq ptr %o, null
  br i1 %failed, label %done, label %read
read:
  %found = call ptr @PyObject_GetAttr(ptr %o, ptr %name)
  ret ptr %found
done:
  ret ptr null
}}
define i32 @mine.set.{number}(ptr %face, ptr %name, ptr %value) nounwind {{
  %o = call ptr @mine.{number}()
  %failed = icmp eq ptr %o, null
  br i1 %failed, label %done, label %write
write:
  %status = call i32 @PyObject_SetAttr(ptr %o, ptr %name, ptr %value)
  ret i32 %status
done:
  ret i32 -1
}}
""" for number, description in enumerate(program.per_thread))


VISIT = """
define internal i32 @visit(ptr %o, ptr %visit, ptr %arg) alwaysinline nounwind {
  %none = icmp eq ptr %o, null
  br i1 %none, label %skip, label %go
go:
  %r = call i32 %visit(ptr %o, ptr %arg)
  ret i32 %r
skip:
  ret i32 0
}
"""
