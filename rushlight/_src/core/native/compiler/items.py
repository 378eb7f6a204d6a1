"""The helper functions of compiled modules for items of tuples, lists and dicts (see ``runtime.py``)."""
from . import layout
from .ir import VALUES


def sequences(constant):
    """Items of tuples and lists, with bounds, in place."""
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
"""


def lists(constant):
    """Lists as tuples, and without their last item."""
    return f"""define internal ptr @as_tuple(ptr %o) alwaysinline nounwind {{
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
"""


def dicts(constant):
    """Lookup of dict items, with a default for missing ones."""
    return f"""define internal ptr @dict_item(ptr %d, ptr %key) nounwind {{
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
