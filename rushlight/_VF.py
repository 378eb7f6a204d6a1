"""``torch._VF``: functions of the top level, by the name under which PyTorch's modules call them."""
from ._src.core.later import later


def __getattr__(name):
    import rushlight
    return getattr(rushlight, name) if hasattr(rushlight, name) else later(__name__)(name)
