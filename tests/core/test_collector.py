"""The collector waits while a program is planned, and is as it was afterwards."""
import gc

import pytest

import rushlight as torch
from rushlight._src.core import collector
from rushlight._src.eager import plan


def test_it_waits_and_is_as_it_was():
    with collector.waiting():
        assert not gc.isenabled()
        with collector.waiting():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with collector.waiting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_lets_it_go_on():
    with pytest.raises(ZeroDivisionError), collector.waiting():
        1 / 0
    assert gc.isenabled()


def test_plans_are_made_meanwhile(monkeypatch):
    seen, original = [], plan.make_plan
    monkeypatch.setattr(plan, "make_plan", lambda *call: (seen.append(gc.isenabled()), original(*call))[1])
    torch.compile(lambda x: (x * 2).relu())(torch.ones(3, 5, 7))
    assert seen and not any(seen) and gc.isenabled()
