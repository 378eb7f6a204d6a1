"""Tracing below autograd."""


def __getattr__(name):
    from importlib import import_module

    if name in ("proxy_tensor",):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
