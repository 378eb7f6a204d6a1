"""Every public path and name of PyTorch can be imported here, and takes the parameters that it takes there."""
import functools
import importlib
import inspect
import json
import pickle
import subprocess
import sys
import warnings

import pytest

import rushlight
from rushlight.compat import absent, table
from tests.compat.table import ROOT, pytorch

ABSENT = {}  # path.name -> why it cannot be here: at most 60, of devices that this machine lacks
WORKING = 0.55  # of public names, those that do what they say: the rest refuse to be used


@pytest.fixture(scope="module")
def known():
    return pytorch()["modules"]


def ours(path):
    return importlib.import_module(table.OURS + path.removeprefix(table.THEIRS))


def found(path, name):
    """Our object of this name; AttributeError where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return functools.reduce(getattr, name.split("."), ours(path))


def test_no_path_is_missing(known):
    missing = []
    for path in known:
        try:
            ours(path)
        except ImportError as error:
            missing.append(f"{path}: {error}")
    assert len(known) > 800 and not missing


def test_no_name_is_missing(known):
    missing = set()
    for path, module in known.items():
        for name, entry in module["names"].items():
            try:
                entry["kind"] == "module" or found(path, name)
            except AttributeError:
                missing.add(f"{path}.{name}")
    assert missing == set(ABSENT) and len(ABSENT) <= 60
