"""The bytes under tensors."""
from .compat.absent import absent
from .core.convert import UntypedStorage

__all__ = ["PyTorchFileReader", "PyTorchFileWriter", "TypedStorage", "UntypedStorage"]  # noqa: F822 - of which all but the last exist as names only
globals().update(absent("torch.storage", "storages have no dtype: use tensor.untyped_storage()", "TypedStorage"),
                 **absent("torch", "files are read as a whole: use torch.load, with mmap=True for large ones", "PyTorchFileReader PyTorchFileWriter"))
