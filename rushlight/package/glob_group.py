"""Patterns of dotted names."""

from __future__ import annotations

import re


class GlobGroup:
    """Names that match one of ``include`` and none of ``exclude``: ``*`` stands for what is within one part, ``**`` for
    whole parts.

    ValueError for ``**`` next to other characters in a part.

    >>> group = GlobGroup("model.**", exclude="model.data")
    >>> group.matches("model"), group.matches("model.layers.norm"), group.matches("model.data"), group.matches("models")
    (True, True, False, False)
    """

    def __init__(self, include, *, exclude=(), separator="."):
        self.separator = separator
        self.include, self.exclude = (
            [self.pattern(p) for p in ([given] if isinstance(given, str) else given)] for given in (include, exclude)
        )
        self.text = f"GlobGroup(include={include!r}, exclude={exclude!r})"

    def pattern(self, glob: str):
        between, found = re.escape(self.separator), ""
        for part in glob.split(self.separator):
            if "**" in part and part != "**":
                raise ValueError("** can only appear as an entire path segment")
            inner = "".join(f"[^{between}]*" if c == "*" else re.escape(c) for c in part)
            found += f"({between}[^{between}]+)*" if part == "**" else between + inner
        return re.compile(found)

    def matches(self, candidate: str) -> bool:
        """Whether a name is one of these."""
        candidate = self.separator + candidate
        return any(p.fullmatch(candidate) for p in self.include) and not any(
            p.fullmatch(candidate) for p in self.exclude
        )

    def __repr__(self):
        return self.text
