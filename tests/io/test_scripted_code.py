"""Scripted programs whose code lives in no module that can be imported: files hold it, and other processes run it."""
import os
import subprocess
import sys

import pytest

import rushlight as torch

PROGRAM = '''
import collections
import dataclasses
import enum
import functools
import os.path
import sys
import typing

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn

SCALE = 3.0


class Kind(enum.Enum):
    PLAIN = 0
    TWICE = 2


class Pair(typing.NamedTuple):
    left: torch.Tensor
    right: float


@dataclasses.dataclass
class Options:
    width: int = 3
    kind: Kind = Kind.TWICE


def scaled(x, factor: float = SCALE, *, shift=1.0):
    return shifted(x * factor, shift)


def shifted(x, by):
    return x + by if by > 0 else scaled(x, 1.0, shift=-by)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Base(nn.Module):
    instances = 0

    def __init__(self, options):
        super().__init__()
        self.options, self.l = options, nn.Linear(options.width, options.width)
        nn.init.constant_(self.l.weight, 0.5)
        nn.init.zeros_(self.l.bias)
        type(self).instances += 1
        self.held = Slotted(2.0)

    @property
    def width(self):
        return self.options.width

    @staticmethod
    def double(x):
        return x * 2

    @classmethod
    def count(cls):
        return cls.instances

    @functools.cached_property
    def cached(self):
        return float(self.width)


def make(extra):
    class Inner(Base):
        def forward(self, x):
            pair = Pair(super().double(F.relu(self.l(x))), extra)
            if self.options.kind is Kind.TWICE:
                return scaled(pair.left) + pair.right + self.count() + self.cached + self.held.value
            return torch.nn.functional.gelu(pair.left)

    def local(x, n: int):
        return x if n == 0 else local(x + extra, n - 1)

    return Inner(Options()), local, lambda x: os.path.basename("a/b") and x * SCALE


if __name__ == "__main__":
    for k, program in enumerate(make(4.0)):
        torch.jit.script(program).save(f"{sys.argv[1]}/{k}.pt")
    torch.jit.script(Base(Options(2)).double).save(f"{sys.argv[1]}/3.pt")
'''
READ = '''
import sys
import rushlight as torch
for k in range(4):
    print(torch.jit.load(f"{sys.argv[1]}/{k}.pt")(torch.ones(3), *[2] * (k == 1)).tolist())
'''


def run(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True,
                          env={**os.environ, "PYTHONWARNINGS": "ignore"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_process_runs_code_that_it_cannot_import(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    run(str(tmp_path / "program.py"), str(tmp_path))
    # 2 * relu(1.5) * 3 + 1, and 4 + 1 + 3 + 2
    assert run("-c", READ, str(tmp_path)).splitlines() == [str([20.0] * 3), str([9.0] * 3), str([3.0] * 3),
                                                            str([2.0] * 3)]


def test_code_of_another_version_of_python_is_refused(tmp_path, monkeypatch):
    from rushlight._src import code_pickles
    file = tmp_path / "f.pt"
    with pytest.warns(DeprecationWarning):
        made = torch.jit.script(lambda x: x + 1)
    monkeypatch.setattr(code_pickles, "VERSION", "cpython-27")
    made.save(file)
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="bytecode of cpython-27"):
        torch.jit.load(file)


def test_what_cannot_be_written_is_named(tmp_path):
    lock = open(os.devnull)
    with pytest.warns(DeprecationWarning):
        made = torch.jit.script(lambda x: lock and x)
    with pytest.raises(RuntimeError, match="TextIOWrapper"), lock:
        made.save(tmp_path / "f.pt")
