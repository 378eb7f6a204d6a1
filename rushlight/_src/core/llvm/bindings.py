"""LLVM's bindings, imported when something is first compiled: a warm start never needs them."""
import functools


@functools.cache
def bindings():
    """``llvmlite.binding``; kept here, since nothing can be imported while Python ends."""
    import llvmlite.binding

    return llvmlite.binding
