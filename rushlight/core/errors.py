"""Errors that PyTorch's callers catch by name."""


class OutOfMemoryError(RuntimeError):
    """An allocation that the machine cannot serve."""


class NotSupported(NotImplementedError):
    """Something that is understood and not yet built; the message says what to use instead."""
