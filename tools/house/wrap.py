"""Wrap lines that renaming has made longer than the project allows."""
from __future__ import annotations

import io
import re
import tokenize

WIDTH = 120
FRESH = re.compile(r"[-*+] |\d+\. |>>> |\.\.\. |\| |:\w|```|#+ |\w+:$")  # begins a paragraph of its own


def wrap(text: str, path: str, old: set) -> str:
    """The text with new long lines wrapped; ``old``: lines that were there before."""
    lines = text.split("\n")
    long = [k for k, line in enumerate(lines) if len(line) > WIDTH and line not in old and "# noqa" not in line]
    if not long:
        return text
    if path.endswith(".md"):
        for k in reversed(long):
            if re.match(r" {4,}.*│", lines[k]):
                lines[k] = re.sub(rf" {{1,{len(lines[k]) - WIDTH}}}(?=\S* │$)", "", lines[k], count=1)
            elif lines[k].startswith("    "):
                column(lines, k)
            elif not lines[k].startswith(("|", "\t")) and lines[k].strip().count(" ") > 2:
                flow(lines, k, re.match(r"\s*", lines[k])[0])
    elif path.endswith(".py"):
        kinds = kinds_of(text)
        for k in reversed(long):
            kind = kinds.get(k + 1, "code")
            lead = re.match(r"\s*(# )?", lines[k])[0]
            if kind == "string" or kind == "comment":
                flow(lines, k, lead)
            else:
                code(lines, k)
    return "\n".join(lines)


def column(lines: list, k: int):
    """Continue an entry of a list in two columns ("    name   what it is") on a line of its own, in the second one."""
    found = re.match(r" {4,}(?:[│├└─ ]*)\S+(?: \S+){0,3} {2,}(?=\S)", lines[k])
    if not found:
        return
    following = lines[k + 1] if k + 1 < len(lines) else ""
    lead = re.match(r" *", following)[0]
    indent = lead if 12 < len(lead) < 40 else " " * len(found[0])
    while len(lines[k]) > WIDTH:
        at = lines[k].rfind(" ", len(found[0]), WIDTH + 1)
        if at < 0:
            return
        rest, lines[k] = lines[k][at + 1:], lines[k][:at]
        if following.startswith(indent) and following[len(indent):len(indent) + 1] not in ("", " "):
            lines[k + 1] = f"{indent}{rest} {following[len(indent):]}"
        else:
            lines.insert(k + 1, f"{indent}{rest}")
        k, following = k + 1, lines[k + 2] if k + 2 < len(lines) else ""


def kinds_of(text: str) -> dict[int, str]:
    """Line -> "string" within a string of several lines, "comment" for a comment alone."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#"):
            found[token.start[0]] = "comment"
        elif token.type == tokenize.STRING and token.string.lstrip("rbRB").startswith(('"""', "'''")):
            for k in range(token.start[0], token.end[0] + 1):
                found.setdefault(k, "string")
    return found


def flow(lines: list, k: int, lead: str):
    """Move the end of a line of prose to the next one, and so on to the end of the paragraph."""
    indent = lead if lead.strip() != "#" else lead
    marker = re.match(r"\s*(?:[-*+] |\d+\. )", lines[k])
    hanging = " " * len(marker[0]) if marker else indent
    while len(lines[k]) > WIDTH:
        at = lines[k].rfind(" ", len(lead) + 1, WIDTH + 1)
        if at < 0 or '"""' in lines[k][at:] and lines[k].strip().startswith('"""') and " " not in lines[k][:at].strip():
            return
        rest, lines[k] = lines[k][at + 1:], lines[k][:at]
        following = lines[k + 1] if k + 1 < len(lines) else ""
        same = following.startswith(hanging) and following[len(hanging):][:1] not in ("", " ") \
            and not FRESH.match(following.strip()) and following.strip() != '"""' and not rest.endswith('"""') \
            and (hanging.strip() == "#") == following.strip().startswith("#") and not following.strip().startswith("`" * 3)
        if lead.strip() != "#" and lines[k].lstrip().startswith('"""') or hanging:
            hanging = re.match(r"\s*(# )?", lines[k])[0] if not marker else hanging
        if same:
            lines[k + 1] = f"{hanging}{rest} {following[len(hanging):]}"
        else:
            lines.insert(k + 1, f"{hanging}{rest}")
        k, marker = k + 1, None


def code(lines: list, k: int):
    """Break a line of code after a comma in brackets, or put its comment above it."""
    line = lines[k]
    indent = re.match(r"\s*", line)[0]
    comment = re.search(r"  # (?!noqa)", line)
    if comment and line[:comment.start()].count('"') % 2 == 0 and line[:comment.start()].strip():
        lines[k:k + 1] = [f"{indent}# {line[comment.end():]}", line[:comment.start()]]
        if len(lines[k]) > WIDTH:
            flow(lines, k, f"{indent}# ")
        return
    stack, quote, best, j = [], "", None, 0
    while j < min(len(line), WIDTH):
        c = line[j]
        if quote:
            if c == "\\":
                j += 1
            elif c == quote:
                quote = ""
        elif c in "\"'":
            quote = c
        elif c in "([{":
            stack.append(j)
        elif c in ")]}":
            stack and stack.pop()
        elif c == "," and line[j + 1:j + 2] == " " and stack:
            best = j, stack[-1] + 1
        elif line[j:j + 4] == " if " and stack:
            best = j, stack[-1] + 1
        j += 1
    if best is None:
        return
    at, column = best
    cut = at + 1 if line[at] == "," else at
    rest = line[cut:].lstrip()
    if not rest.strip() or column + len(rest) >= len(line):
        return
    lines[k:k + 1] = [line[:cut].rstrip(), " " * column + rest]
    if len(lines[k + 1]) > WIDTH:
        code(lines, k + 1)
