"""Errors of values without a hash are those of the program: it may catch them, and what it did before stays done."""
import pytest

import rushlight as torch

NO_HASH = {
    "dict": "{[]: x}", "nested in a tuple": "{(1, ([],)): x}", "set": "{x, []}", "add": "set().add({})",
    "store": "{}.__setitem__([1], x)", "subscript": "{1: x}[[]]", "get": "{1: x}.get([])", "in": "[] in {1: x}",
    "setdefault": "{1: 2}.setdefault({}, 1)",
    "comprehension": "{[y]: 1 for y in range(2)}",
    "dict()": "dict([([], 1)])",
    "frozenset": "frozenset([[]])", "union": "{1, 2}.union([[3]])", "of a user": "{Plain(): x}", "hash": "hash([])",
    "del of an item": "l = [1]; del l['a']", "del of a key": "l = {1: 2}; del l[[]]",
}


class Plain:
    """Has equality, and so no hash."""

    def __eq__(self, other):
        return True


@pytest.mark.parametrize("name", NO_HASH)
def test_values_without_a_hash(name):
    space = {"Plain": Plain}
    exec(f"""
def catching(x, done):
    done.append(1)
    try:
        {NO_HASH[name]}
    except TypeError as error:
        return x + 1, str(error)

def leaving(x, done):
    done.append(1)
    {NO_HASH[name]}
""", space)
    plain, compiled = [], []
    for done, wrapped in ((plain, lambda f: f), (compiled, lambda f: torch.compile(f, backend="eager"))):
        value, text = wrapped(space["catching"])(torch.ones(1), done)
        with pytest.raises(TypeError) as caught:
            wrapped(space["leaving"])(torch.ones(1), done)
        done += [value.tolist(), text, str(caught.value)]
    assert compiled == plain and plain[:2] == [1, 1]


def test_descriptors_refuse_objects_of_other_classes():
    class Slotted:
        __slots__ = ("a",)

    def function(x, owner):
        try:
            return x + Slotted.a.__get__(owner)
        except TypeError as error:
            return str(error)
    owner = Slotted()
    owner.a = 2
    compiled = torch.compile(function, backend="eager")
    for given in (owner, Plain(), 3, [], None):
        plain = function(torch.ones(1), given)
        found = compiled(torch.ones(1), given)
        assert found == plain if isinstance(plain, str) else found.tolist() == plain.tolist()
