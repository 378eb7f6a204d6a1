"""Wrap lines that renaming has made longer than the project allows."""
from __future__ import annotations

import ast
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
            if kinds.get(k + 1) in ("string", "comment"):
                flow(lines, k, re.match(r"\s*(# )?", lines[k])[0])
        text = "\n".join(lines)
        long = [k for k in range(len(lines)) if len(lines[k]) > WIDTH and lines[k] not in old and "# noqa" not in lines[k]]
        if not long:
            return text
        kinds, within, logical = kinds_of(text), brackets(text), statements(text)
        for k in reversed(long):
            if k + 1 not in kinds:
                whole(lines, k, k + 1 in within, logical.get(k + 1))
        wrapped = "\n".join(lines)
        try:  # the same program
            return wrapped if ast.dump(ast.parse(wrapped)) == ast.dump(ast.parse(text)) else text
        except SyntaxError:
            return text
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


def brackets(text: str) -> set:
    """Numbers of the lines that begin within brackets."""
    found, depth, last = set(), 0, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.start[0] != last:
            last = token.start[0]
            if depth:
                found.add(last)
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
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


def statements(text: str) -> dict[int, tuple]:
    """Line -> the first and last line of its statement; without those with comments, or strings of several lines."""
    found, begin, plain = {}, None, True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING) or begin is None and \
                token.type == tokenize.COMMENT:
            continue
        begin = begin or token.start[0]
        if token.type == tokenize.COMMENT or token.start[0] != token.end[0] and token.type != tokenize.NEWLINE:
            plain = False
        if token.type == tokenize.NEWLINE:
            if plain:
                found |= dict.fromkeys(range(begin, token.start[0] + 1), (begin, token.start[0]))
            begin, plain = None, True
    return found


def whole(lines: list, k: int, inside: bool, span):
    """Break a line; if that leaves a part too long, break its statement anew from its beginning."""
    if k >= len(lines) or len(lines[k]) <= WIDTH:
        return
    first, last = (span[0] - 1, span[1]) if span else (k, k + 1)
    attempt = lines[first:last]
    code(attempt, k - first, inside)
    if span and any(len(line) > WIDTH for line in attempt):
        parts = [lines[first].rstrip(" \\"), *(line.strip().rstrip(" \\") for line in lines[first + 1:last])]
        one = parts[0]
        for part in parts[1:]:
            one += part if one[-1] in "([{" or part[0] in ")]}" else f" {part}"
        anew = [one]
        code(anew, 0, False)
        if max(map(len, anew)) <= max(WIDTH, *map(len, attempt)) and sum(len(line) > WIDTH for line in anew) < sum(
                len(line) > WIDTH for line in attempt):
            attempt = anew
    lines[first:last] = attempt


OPERATORS = re.compile(r" (?:and|or|if|else|for|not in|is not|[-+*/|&]|[=!<>]=|[<>]) ")


def code(lines: list, k: int, inside: bool):
    """Break a line of code in brackets, at the outermost place after which the rest fits; or put its comment above it.
    ``inside``: the line begins within brackets."""
    line = lines[k]
    indent = re.match(r"\s*", line)[0]
    comment = re.search(r"  # (?!noqa)", line)
    if comment and line[:comment.start()].count('"') % 2 == 0 and line[:comment.start()].strip():
        lines[k:k + 1] = [f"{indent}# {line[comment.end():]}", line[:comment.start()]]
        if len(lines[k]) > WIDTH:
            flow(lines, k, f"{indent}# ")
        if len(lines[k + 1]) > WIDTH:
            code(lines, k + 1, inside)
        return
    best = min(places(line, len(indent) if inside else None), default=None)
    if best is None and not inside:
        statement = re.fullmatch(r"(\s*(?:return |assert |yield |raise |[\w.,\[\]\" ]+ = ))(.+)", line)
        condition = re.fullmatch(r"(\s*(?:if|elif|while|with) )(.+)(:)", line)
        found = statement or condition
        if found and not line.endswith(("(", "[", "{", ",", "\\")) and balanced(found[2]):
            lines[k] = f"{found[1]}({found[2]}){':' if condition else ''}"
            best = min(places(lines[k], None), default=None)
            line = lines[k] if best else line
            lines[k] = line
    if best is None:
        return
    _, _, cut, column, quotes = best
    rest = line[cut:].lstrip() if not quotes else quotes[1] + line[cut:]
    lines[k:k + 1] = [line[:cut].rstrip() if not quotes else line[:cut] + quotes[0], " " * column + rest]
    if len(lines[k + 1]) > WIDTH:
        code(lines, k + 1, True)


def balanced(text: str) -> bool:
    try:
        ast.parse(f"({text})")
    except SyntaxError:
        return False
    return True


def places(line: str, own: int | None):
    """(does the rest not fit, depth, where, column of the rest, quotes): places to break a line; ``own``: the column of
    its brackets, if it begins within some."""
    stack, quote, prefix, braces, j = [] if own is None else [own - 1], "", "", 0, 0
    floor = len(stack)
    while j < len(line):
        c = line[j]
        if quote:
            if c == "\\":
                j += 1
            elif c == quote:
                quote = ""
            elif "f" in prefix and c in "{}" and line[j:j + 2] not in ("{{", "}}"):
                braces += 1 if c == "{" else -1
            elif "f" in prefix and c in "{}":
                j += 1
            elif c == " " and not braces and stack and 20 < j < WIDTH - 1:
                yield (True, len(stack) + 9), -j, j + 1, start, (quote, prefix + quote)
        elif c in "\"'":
            quote, braces = c, 0
            prefix = re.search(r"[rbfRBF]*$", line[:j])[0]
            start = j - len(prefix)
        elif c in "([{":
            stack.append(j)
            lead = len(line) - len(line.lstrip()) + 4
            if lead + 8 < j < WIDTH and line[j + 1:].strip() and line[j + 1] not in ")]}":
                yield (lead + len(line) - j - 1 > WIDTH, len(stack) + 4), -j, j + 1, lead, ()
        elif c in ")]}":
            if stack:
                stack.pop()
            floor = min(floor, len(stack))
        elif c == " " and stack and j < WIDTH:
            match = OPERATORS.match(line, j)
            if line[j - 1] == "," or match:
                column = stack[-1] + 1
                rest = len(line) - j - 1
                if line[j + 1:].strip() and column < j:
                    yield (column + rest > WIDTH, len(stack)), -j, j, column, ()
        j += 1
