"""Predicates of modules that ``torch.jit`` made."""


class Made:
    """A module that ``jit`` made of another, or read from a file."""


class TracerWarning(Warning):
    """A warning of what makes a trace differ from the program, or keep running its Python."""

    @staticmethod
    def ignore_lib_warnings():
        """Nothing to ignore: the package gives this warning for programs of users alone."""
