"""What operators declare about themselves: the table of traits is complete, typed, and all of it is read."""
import pathlib
import re

import pytest

import rushlight
from rushlight._src.core.op import OPS, make
from rushlight._src.core.traits import TRAITS, check

SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in pathlib.Path(rushlight.__file__).parent.rglob("*.py")
                    if path.name != "traits.py")


@pytest.mark.parametrize("name", sorted(TRAITS.keys() - {"samples"}))  # those are for tests
def test_every_trait_is_read(name):
    assert re.search(rf'traits(\.get\(|\[|\.setdefault\()\s*"{name}"|"{name}" (not )?in \w+(\.\w+)*\.traits', SOURCES)


def test_all_operators_have_traits_of_the_table():
    for operator in OPS.values():
        check(operator.name, operator.traits)


def test_other_traits_are_refused():
    with pytest.raises(TypeError, match="there is no trait 'elementwise_'"):
        make("own", elementwise_=True)
    with pytest.raises(TypeError, match="the trait 'view' is"):
        make("own", view="yes")


def test_caches_are_apart_from_traits():
    operator = make("own", lambda x: x)
    operator.caches["seen"] = 1
    assert operator.traits == {} and make("own", lambda x: x).caches == {}
