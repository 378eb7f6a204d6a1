"""FileCheck: what a text must have, in order."""
import pytest

from rushlight.testing import FileCheck

TEXT = "a = add(x)\nb = relu(a)\nc = add(b)\nd = mul(c)\n"
HOLD = {"order": lambda c: c.check("add").check("relu").check("mul"),
        "not before": lambda c: c.check("relu").check_not("relu").check("mul"),
        "not at the end": lambda c: c.check("mul").check_not("add"),
        "next": lambda c: c.check("add").check_next("relu"),
        "same": lambda c: c.check("b =").check_same("relu"), "count": lambda c: c.check_count("add", 2, exactly=True),
        "any order": lambda c: c.check_dag("mul").check_dag("relu").check_not("sin"),
        "pattern": lambda c: c.check_regex(r"re.u\(a\)").check("add")}
FAIL = {"order": lambda c: c.check("mul").check("relu"), "not": lambda c: c.check("add").check_not("relu").check("mul"),
        "not at the end": lambda c: c.check("relu").check_not("add"),
        "next": lambda c: c.check("add").check_next("mul"),
        "same": lambda c: c.check("b =").check_same("mul"), "count": lambda c: c.check_count("add", 3),
        "exactly": lambda c: c.check_count("add", 1, exactly=True), "missing": lambda c: c.check_dag("sin"),
        "pattern": lambda c: c.check_regex("s.n")}


@pytest.mark.parametrize("name", HOLD)
def test_what_holds(name):
    HOLD[name](FileCheck()).run(TEXT)


@pytest.mark.parametrize("name", FAIL)
def test_what_does_not(name):
    with pytest.raises(RuntimeError, match="Expected to"):
        FAIL[name](FileCheck()).run(TEXT)
