"""The functions of CPython's C API and of the C library that compiled code calls, with their LLVM types: result, then
arguments."""

from ...platform import here

API = {
    "_Py_Dealloc": "void ptr", "PyErr_Occurred": "ptr", "PyErr_SetString": "void ptr ptr",
    "PyErr_SetObject": "void ptr ptr",
    "PyErr_SetNone": "void ptr", "PyErr_Format": "ptr ptr ptr ...", "PyErr_Fetch": "void ptr ptr ptr",
    "PyErr_Restore": "void ptr ptr ptr",
    "PyErr_NormalizeException": "void ptr ptr ptr", "PyErr_GivenExceptionMatches": "i32 ptr ptr",
    "PyErr_WriteUnraisable": "void ptr",
    "PyException_SetTraceback": "i32 ptr ptr", "PyException_SetCause": "void ptr ptr", "PyErr_NoMemory": "ptr",
    "PyObject_IsTrue": "i32 ptr", "PyObject_RichCompare": "ptr ptr ptr i32", "PyObject_GetAttr": "ptr ptr ptr",
    "PyObject_SetAttr": "i32 ptr ptr ptr", "PyObject_GetItem": "ptr ptr ptr", "PyObject_SetItem": "i32 ptr ptr ptr",
    "PyObject_DelItem": "i32 ptr ptr", "PyObject_Vectorcall": "ptr ptr ptr i64 ptr",
    "PyObject_VectorcallMethod": "ptr ptr ptr i64 ptr",
    "PyObject_Call": "ptr ptr ptr ptr", "PyObject_Size": "i64 ptr", "PyObject_GetIter": "ptr ptr",
    "PyIter_Next": "ptr ptr",
    "PyObject_IsInstance": "i32 ptr ptr", "PyObject_Format": "ptr ptr ptr", "PyObject_Repr": "ptr ptr",
    "PyObject_Str": "ptr ptr",
    "PyObject_ClearWeakRefs": "void ptr", "PyObject_GC_Track": "void ptr", "PyObject_GC_UnTrack": "void ptr",
    "PyObject_GC_Del": "void ptr",
    "PyObject_Free": "void ptr", "PyType_GenericAlloc": "ptr ptr i64", "PyType_IsSubtype": "i32 ptr ptr",
    "PyType_GetSlot": "ptr ptr i32",
    "PyMethod_New": "ptr ptr ptr", "PyTuple_New": "ptr i64", "PySequence_Tuple": "ptr ptr",
    "PyTuple_GetSlice": "ptr ptr i64 i64", "PyList_New": "ptr i64",
    "PyList_Append": "i32 ptr ptr", "PyList_GetSlice": "ptr ptr i64 i64", "PyList_SetItem": "i32 ptr i64 ptr",
    "PySlice_New": "ptr ptr ptr ptr", "PyDict_New": "ptr", "PyDict_GetItemWithError": "ptr ptr ptr",
    "PyDict_SetItem": "i32 ptr ptr ptr",
    "PyDict_DelItem": "i32 ptr ptr", "PyDict_Contains": "i32 ptr ptr", "PySequence_Contains": "i32 ptr ptr",
    "PyUnicode_Join": "ptr ptr ptr",
    "PyUnicode_GetLength": "i64 ptr", "PyLong_FromLongLong": "ptr i64", "PyLong_AsLongLong": "i64 ptr",
    "PyFloat_FromDouble": "ptr double",
    "PyFloat_AsDouble": "double ptr", "PyNumber_Long": "ptr ptr", "PyNumber_Float": "ptr ptr",
    "PyNumber_Negative": "ptr ptr",
    "PyNumber_Invert": "ptr ptr", "PyNumber_Positive": "ptr ptr", "PyNumber_Absolute": "ptr ptr",
    "PyNumber_Power": "ptr ptr ptr ptr",
    **{f"PyNumber_{name}": "ptr ptr ptr" for name in (
        "Add Subtract Multiply MatrixMultiply TrueDivide FloorDivide Remainder And Or Xor Lshift Rshift "
        "InPlaceAdd InPlaceSubtract InPlaceMultiply InPlaceMatrixMultiply InPlaceTrueDivide InPlaceFloorDivide "
        "InPlaceRemainder "
        "InPlaceAnd InPlaceOr InPlaceXor InPlaceLshift InPlaceRshift"
    ).split()},
    "PyEval_SaveThread": "ptr", "PyEval_RestoreThread": "void ptr",
}
OF_C = {"fmod": "double double double"}
_POSIX = {"pthread_getspecific": "ptr i32", "pthread_setspecific": "i32 i32 ptr", "aligned_alloc": "ptr i64 i64",
          "free": "void ptr", "mmap": "ptr ptr i64 i32 i32 i32 i64", "munmap": "i32 ptr i64"}
OF_SYSTEM = {
    "posix": _POSIX, "linux": {**_POSIX, "madvise": "i32 ptr i64 i32"},
    "macos": {**_POSIX, "pthread_getspecific": "ptr i64", "pthread_setspecific": "i32 i64 ptr"},
    "windows": {"TlsGetValue": "ptr i32", "TlsSetValue": "i32 i32 ptr", "_aligned_malloc": "ptr i64 i64",
                "_aligned_free": "void ptr", "VirtualAlloc": "ptr ptr i64 i32 i32", "VirtualFree": "i32 ptr i64 i32"}}


def declare(module, name):
    """Declare a function of the C API (or the C library) in a module."""
    known = {**API, **OF_C, **OF_SYSTEM[here.name]}
    result, *arguments = known[name].split()
    module.declare(name, result, arguments, "nounwind")
