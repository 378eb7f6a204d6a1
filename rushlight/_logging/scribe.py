"""Events for a log service of PyTorch's project: as in PyTorch without that service's package, none is sent."""
from __future__ import annotations

from collections.abc import Callable


def make_scribe_logger(name: str, thrift_src: str) -> Callable[..., None]:
    """Return a function that takes the fields of an event by keyword and sends nothing.

    >>> make_scribe_logger("Event", "struct Event {}")(name="start")
    """
    def discard(**fields) -> None:
        pass

    return discard


open_source_signpost = make_scribe_logger("TorchOpenSourceSignpost", "")
