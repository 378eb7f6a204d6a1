"""Docstrings, comments, messages and documentation of the project, without the code that they quote."""
from __future__ import annotations

import ast
import io
import re
import tokenize

QUOTED = re.compile(r'``.+?``|`[^`\n]+`|"[^"\n]{1,60}"|https?://\S+', re.DOTALL)
EXAMPLE = re.compile(r"^[ \t]*>>>.*(?:\n[ \t]*\S.*)*", re.MULTILINE)  # up to an empty line
MESSAGES = re.compile(r"(Error|Warning|Break|Refused|Unsupported|warn|warning|debug|info|error|exception|refuse|require|"
                      r"fail|expect)$|^(Setting|Hook|add_argument)$")
TEXT = r"(?:[^{0}\\\n]|\\.)* (?:[^{0}\\\n]|\\.)*"  # of a string with a space
STRINGS = "|".join(quote + TEXT.replace("{0}", quote) + quote for quote in "\"'")
ROUGH = re.compile(r'#[^\n]*|"{3}[\s\S]*?"{3}|' + STRINGS)
DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef


def blank_code(text: str) -> str:
    """Replace code within prose by spaces; lengths and lines stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    return QUOTED.sub(blank, EXAMPLE.sub(blank, text))


def docstrings(tree: ast.AST):
    """The nodes of docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr):
            value = node.body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def messages(tree: ast.AST):
    """The string constants of errors, assertions, warnings, logs, settings and command-line options."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            part = node.exc
        elif isinstance(node, ast.Assert):
            part = node.msg
        elif isinstance(node, ast.Call) and MESSAGES.search(getattr(node.func, "attr", getattr(node.func, "id", ""))):
            part = node
        else:
            continue
        for inner in ast.walk(part) if part is not None else ():
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and " " in inner.value.strip():
                found[id(inner)] = inner
    return found.values()


def comments(source: str):
    """(line, text) of comments; those on consecutive lines are one."""
    block, begin = [], 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != begin + len(block):
                yield begin, "\n".join(block)
                block = []
            begin = begin if block else token.start[0]
            block.append(token.string.lstrip("# ").rstrip("- "))
    if block:
        yield begin, "\n".join(block)


def rough(source: str) -> str:
    """Whatever may be prose of a module, on one line: soon found, and more than ``of_python`` finds."""
    return " ".join(" ".join(ROUGH.findall(source)).replace("#", " ").split())


def of_python(source: str):
    """(line, text) of the docstrings, comments and messages of a module."""
    tree = ast.parse(source)
    for node in docstrings(tree):
        yield node.lineno, blank_code(node.value)
    for node in messages(tree):
        yield node.lineno, node.value
    for line, text in comments(source):
        yield line, blank_code(text)


def of_markdown(source: str):
    """(line, text) of the paragraphs of a Markdown file."""
    paragraph, begin, is_fenced = [], 0, False
    for number, line in enumerate([*source.split("\n"), ""], 1):
        if line.lstrip().startswith("```"):
            is_fenced, line = not is_fenced, ""
        is_code = is_fenced or not paragraph and line.startswith(("    ", "\t"))
        if line.strip() and not is_code:
            begin = begin if paragraph else number
            paragraph.append(line)
        elif paragraph:
            yield begin, blank_code("\n".join(paragraph))
            paragraph = []
