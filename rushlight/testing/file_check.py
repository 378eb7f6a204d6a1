"""FileCheck: what a text must and must not have, in order."""
from __future__ import annotations

import re


class FileCheck:
    """Checks of a text, added one after another and made by ``run``.

    >>> import rushlight as torch
    >>> torch.testing.FileCheck().check("add").check_not("mul").check_next("relu").run("x = add(y)\\nz = relu(x)\\n")
    """

    def __init__(self):
        self.rules: list = []  # (kind, text, count, exactly)

    def add(self, kind, text, count=1, exactly=False) -> "FileCheck":
        self.rules.append((kind, text, count, exactly))
        return self

    def check(self, text: str) -> "FileCheck":
        """The text comes after what was found before."""
        return self.add("check", text)

    def check_not(self, text: str) -> "FileCheck":
        """The text does not come between what was found before and what is found next."""
        return self.add("not", text)

    def check_same(self, text: str) -> "FileCheck":
        """The text comes in the line of what was found before."""
        return self.add("same", text)

    def check_next(self, text: str) -> "FileCheck":
        """The text comes in the line after what was found before."""
        return self.add("next", text)

    def check_count(self, text: str, count: int, exactly: bool = False) -> "FileCheck":
        """Check that the string occurs this often; no more often with ``exactly``."""
        return self.add("count", text, count, exactly)

    def check_dag(self, text: str) -> "FileCheck":
        """Strings checked one after another by this come in any order."""
        return self.add("dag", text)

    def check_regex(self, pattern: str) -> "FileCheck":
        """Something that fits a pattern comes after what was found before."""
        return self.add("regex", pattern)

    def run(self, text):
        """RuntimeError for the first check that does not hold of a text (or of what prints as one)."""
        text, at, k = str(text), 0, 0
        while k < len(self.rules):
            until = k
            while until < len(self.rules) and self.rules[until][0] == "not":
                until += 1
            forbidden, k = self.rules[k:until], until
            start, end = self.found(text, at, k) if k < len(self.rules) else (len(text), len(text))
            for _, one, _, _ in forbidden:
                if one in text[at:start]:
                    raise RuntimeError(f"Expected to not find {one!r} but found it\n{text}")
            at, k = end, k + self.joined(k)

    def joined(self, k) -> int:
        """How many checks are made together with the k-th: a run of ``check_dag``."""
        count = 1
        while k < len(self.rules) and self.rules[k][0] == "dag" and k + count < len(self.rules) and self.rules[
                k + count][0] == "dag":
            count += 1
        return count

    def found(self, text, at, k) -> tuple:
        """(where what the k-th check is about begins, where it ends)"""
        kind, wanted, count, exactly = self.rules[k]
        if kind == "count":
            return self.counted(text, at, wanted, count, exactly)
        if kind == "dag":
            places = [self.place(text, at, one, len(text)) for _, one, _, _ in self.rules[k:k + self.joined(k)]]
            return min(start for start, _ in places), max(end for _, end in places)
        if kind == "regex":
            match = re.compile(wanted).search(text, at)
            if match is None:
                raise RuntimeError(f"Expected to find something like {wanted!r} but did not find it\n{text[at:]}")
            return match.span()
        line = self.line_end(text, at)
        if kind == "next":
            return self.place(text, line + 1, wanted, self.line_end(text, line + 1))
        return self.place(text, at, wanted, line if kind == "same" else len(text))

    @staticmethod
    def line_end(text, at) -> int:
        end = text.find("\n", at)
        return len(text) if end < 0 else end

    @staticmethod
    def place(text, at, wanted, until) -> tuple:
        start = text.find(wanted, at, until)
        if start < 0:
            raise RuntimeError(f"Expected to find {wanted!r} but did not find it\nSearched string:\n{text[at:until]}")
        return start, start + len(wanted)

    def counted(self, text, at, wanted, count, exactly) -> tuple:
        first, end = None, at
        for _ in range(count):
            start, end = self.place(text, end, wanted, len(text))
            first = start if first is None else first
        if exactly and text.find(wanted, end) >= 0:
            raise RuntimeError(f"Expected to find {wanted!r} {count} times, but found it more often\n{text[at:]}")
        return (at if first is None else first), end
