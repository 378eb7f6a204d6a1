"""Every error number has a page, whose example raises that error."""
import pathlib
import re

import pytest

from rushlight._src.core import errors

PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "errors"
NUMBERED = {c.number: c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.Numbered)
            and c.number is not None}
KINDS = {1: RuntimeError, 4: RuntimeError, 5: RuntimeError, 6: RuntimeError, 7: NotImplementedError, 3: IndexError,
         10: NotImplementedError}


def test_numbers_and_pages_are_the_same():
    assert sorted(int(p.stem) for p in PAGES.glob("[0-9]*.md")) == sorted(NUMBERED)
    listed = re.findall(r"\[(\d+)\]\((\d+)\.md\) (\w+)", (PAGES / "index.md").read_text())
    assert [(int(n), int(m), name) for n, m, name in listed] == [(n, n, c.__name__)
                                                                 for n, c in sorted(NUMBERED.items())]


@pytest.mark.parametrize("number", sorted(NUMBERED))
def test_the_example_raises_it(number):
    kind, page = NUMBERED[number], (PAGES / f"{number}.md").read_text()
    assert page.startswith(f"# {number}: {kind.__name__}\n")
    assert page.count("\n- ") >= 1, "no remedy"
    assert issubclass(kind, KINDS.get(number // 100, (RuntimeError, TypeError)))
    code = "\n".join(line[4:] for line in page.splitlines() if line.startswith("    "))
    with pytest.raises(kind) as raised:
        exec(compile(code, f"{number}.md", "exec"), {})
    text = str(raised.value)
    assert type(raised.value) is kind and text.endswith(f"[error {number}]")
    assert not text.splitlines()[0].endswith(" ")


def test_what_was_seen_comes_first():
    error = errors.BroadcastError("sizes 3 and 4", "equal sizes", "transpose")
    assert str(error).splitlines() == ["sizes 3 and 4", "  wanted: equal sizes", "  remedy: transpose [error 101]"]
    import copy
    import pickle
    assert str(pickle.loads(pickle.dumps(error))) == str(copy.copy(error)) == str(error)
