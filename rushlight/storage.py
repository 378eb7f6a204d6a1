"""The bytes under tensors."""
from .compat.absent import absent
from .core.convert import UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
TypedStorage = absent("torch.storage", "storages have no dtype: use tensor.untyped_storage()", "TypedStorage")["TypedStorage"]
