"""Parameters come with names, all of them, or without."""
import pytest
import torch as judge

import rushlight

GROUPS = {
    "a name is missing": lambda p, q: [("a", p), q],
    "a name too many": lambda p, q: [p, ("b", q)],
    "a group without": lambda p, q: [{"params": [("a", p)]}, {"params": [q]}],
    "a group with": lambda p, q: [{"params": [q]}, {"params": [("a", p)]}],
    "all": lambda p, q: [{"params": [("a", p)]}, {"params": [("b", q)]}],
    "none": lambda p, q: [p, q],
}


def outcome(library, name):
    given = GROUPS[name](*(library.nn.Parameter(library.ones(1)) for _ in range(2)))
    try:
        return [group.get("param_names") for group in library.optim.SGD(given, lr=0.1).param_groups]
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("name", GROUPS)
def test_groups(name):
    assert outcome(rushlight, name) == outcome(judge, name)
