"""What others ask of modules that ``torch.jit`` made."""


class Made:
    """A module that ``jit`` made of another, or read from a file."""


class TracerWarning(Warning):
    """A trace that keeps running the program's Python, since the program fits no one graph."""

    @staticmethod
    def ignore_lib_warnings():
        """Nothing to ignore: the package gives this warning for programs of users alone."""
