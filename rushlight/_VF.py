"""``torch._VF``: functions of the top level, by the name under which PyTorch's modules call them."""


def __getattr__(name):
    import rushlight
    return getattr(rushlight, name)
