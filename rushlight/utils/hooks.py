"""Handles that remove hooks."""
from ..nn.modules.hooks import RemovableHandle  # noqa: F401


def unserializable_hook(f):
    """Marks a hook that pickling leaves out."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor):
    """Warns of hooks that pickling leaves out."""
    import warnings
    for hook in (tensor._rush_hooks or {}).values() if hasattr(tensor._rush_hooks, "values") else ():
        if not getattr(hook, "__torch_unserializable__", False):
            warnings.warn(f"backward hook {hook!r} on tensor will not be serialized.", stacklevel=2)
