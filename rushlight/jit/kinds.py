"""What others ask of modules that ``torch.jit`` made."""


class Made:
    """A module that ``jit`` made of another, or read from a file."""
