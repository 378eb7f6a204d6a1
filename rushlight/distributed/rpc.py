"""Remote calls: a process has nobody to call."""


def _require_initialized(function):
    """What libraries decorate with: the function is refused when it is called."""
    from .._src.compat.absent import absent_function, of_path
    return absent_function("torch.distributed.rpc", function.__name__, *of_path("torch.distributed.rpc"))


def is_available() -> bool:
    return False
