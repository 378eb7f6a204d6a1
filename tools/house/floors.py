"""Bring the import rules up to date after a move: the list of packages in tests/layers/test_imports.py, and the pairs
that still import upward, which may only become fewer.

    python tools/house/floors.py ROOT
"""
from __future__ import annotations

import pathlib
import re
import sys

# from the ground up; "core", "graph" and "aot" until they are empty
ORDER = ("platform native core ir graph tensor transforms aot compiler devices machines ops autograd serialization "
         "eager capture packaging").split()
WHY = "until a definition moves down"


def main(root):
    root = pathlib.Path(root).resolve()
    sys.path.insert(0, str(root))
    from tests.layers import test_imports as rules

    rules.ROOMS = ORDER
    there = {rules.room(module) for module in rules.modules()}
    rooms = [name for name in ORDER if name in there]
    upward = {}
    for module in rules.modules():
        own = rules.room(module)
        for target in rules.imports(module)[0] if own else ():
            other = rules.room(target)
            if other and rooms.index(other) > rooms.index(own):
                upward.setdefault((own, other), set()).add((module, target))
    path = root / "tests" / "layers" / "test_imports.py"
    text = path.read_text(encoding="utf-8")
    lines, line = [], ""
    for word in (f'"{name}"' for name in rooms):
        if len(line) + len(word) + 12 > 118:
            lines.append(line.rstrip())
            line = ""
        line += f"{word}, "
    lines.append(line.rstrip(", "))
    text = re.sub(r"^ROOMS = \[[^\]]*\]", "ROOMS = [" + "\n         ".join(lines) + "]", text, count=1, flags=re.M)
    pairs = "".join(f'    {pair}: "{WHY}",\n'.replace("'", '"') for pair in sorted(upward, key=lambda p: tuple(
        map(rooms.index, p))))
    text = re.sub(r"^ALLOWED = \{[^}]*\}", f"ALLOWED = {{\n{pairs}}}", text, count=1, flags=re.M)
    path.write_text(text, encoding="utf-8")
    for pair, arrows in upward.items():
        for module, target in sorted(arrows):
            print(f"{pair[0]} -> {pair[1]}: {module} imports {target}")


if __name__ == "__main__":
    main(sys.argv[1])
