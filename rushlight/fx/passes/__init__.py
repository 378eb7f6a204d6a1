"""Passes over graphs: each reads one and notes or changes something."""


def __getattr__(name):
    from importlib import import_module

    if name in ("shape_prop", "utils", "infra"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
