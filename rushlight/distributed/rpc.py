"""Remote calls: not here."""
from ..compat.absent import absent

globals().update(absent("torch.distributed.rpc", "this build runs in one process", "RRef init_rpc shutdown rpc_sync rpc_async remote WorkerInfo"))


class api:
    """What other libraries decorate with."""

    @staticmethod
    def _require_initialized(function):
        return absent("torch.distributed.rpc", "this build runs in one process", function.__name__)[function.__name__]


def is_available() -> bool:
    return False
