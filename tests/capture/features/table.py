"""The table of small programs: each with what it is given, how many graphs it becomes, and why it breaks."""
CASES: dict = {}


class Case:
    """One program: ``function(x, *given())`` with the graphs and breaks that capture is to find at the first call."""

    def __init__(self, function, graphs, breaks, given):
        self.function, self.graphs, self.breaks, self.given = function, graphs, breaks, given


def case(graphs=1, breaks=(), given=tuple):
    """Enters a function into the table; ``breaks`` is a code or several, ``given()`` makes its arguments after
    ``x``."""
    breaks = (breaks,) if isinstance(breaks, str) else tuple(breaks)

    def enter(function):
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        assert name not in CASES, name
        CASES[name] = Case(function, graphs, breaks, given)
        return function

    return enter
