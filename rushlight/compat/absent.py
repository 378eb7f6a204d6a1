"""Names that programs import but that this framework does not implement: they exist, and refuse to be used."""
from __future__ import annotations


def absent_class(module: str, name: str, why: str, error=NotImplementedError, bases=(object,)):
    """A class that can be imported, subclassed, named in annotations and asked by ``isinstance``; making an instance raises the error."""
    def refuse(cls, *args, **kwargs):
        raise error(f"{module}.{name} exists here only as a name: {why}")

    made = type(name, bases, {"__new__": refuse, "__module__": module, "__doc__": f"Not implemented: {why}"})
    return made


def absent_function(module: str, name: str, why: str, error=NotImplementedError):
    """A function that can be imported; calling it raises the error."""
    def refuse(*args, **kwargs):
        raise error(f"{module}.{name}() exists here only as a name: {why}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__, refuse.__doc__ = module, f"Not implemented: {why}"
    return refuse


def absent(module: str, why: str, names: str, error=NotImplementedError) -> dict:
    """Names by whether they begin with a capital: classes and functions that refuse to be used."""
    return {n: (absent_class if n.lstrip("_")[:1].isupper() else absent_function)(module, n, why, error) for n in names.split()}
