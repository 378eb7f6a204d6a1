"""Write the pages of the API reference from signatures and docstrings: ``python docs/reference.py DIRECTORY``."""
from __future__ import annotations

import importlib
import inspect
import pathlib
import re
import sys

PAGES = {  # page: (title, module, names; none: all public ones)
    "torch": ("torch", "", None),
    "tensor": ("torch.Tensor", "Tensor", None),
    "nn": ("torch.nn", "nn", None),
    "functional": ("torch.nn.functional", "nn.functional", None),
    "init": ("torch.nn.init", "nn.init", None),
    "optim": ("torch.optim", "optim", None),
    "lr_scheduler": ("torch.optim.lr_scheduler", "optim.lr_scheduler", None),
    "autograd": ("torch.autograd", "autograd", None),
    "func": ("torch.func", "func", None),
    "compiler": ("torch.compiler", "compiler", None),
    "export": ("torch.export", "export", None),
    "linalg": ("torch.linalg", "linalg", None),
    "fft": ("torch.fft", "fft", None),
    "special": ("torch.special", "special", None),
    "data": ("torch.utils.data", "utils.data", None),
    "amp": ("torch.amp", "amp", None),
    "distributed": ("torch.distributed", "distributed", None),
    "profiler": ("torch.profiler", "profiler", None),
}
EXAMPLE = re.compile(r"(?:^>>>.*\n(?:^(?!>>>).*\S.*\n)*)+", re.MULTILINE)


def public_names(owner, is_class: bool) -> list:
    """The public callables of a module, or methods of a class, that have a docstring, in alphabetical order."""
    from rushlight._src.core.later import Beyond
    listed = dir(owner) if is_class or not hasattr(owner, "__all__") else owner.__all__
    only_names = () if is_class else Beyond.names(owner.__name__)  # they raise NotImplementedError when used
    found = []
    for name in sorted(set(listed) - set(only_names)):
        value = None if name.startswith("_") else getattr(owner, name, None)
        if callable(value) and not inspect.ismodule(value) and document_of(value):
            found.append(name)
    return found


def document_of(value) -> str:
    """The docstring of a callable itself, not of its class or a base; empty if there is none."""
    text = vars(value).get("__doc__") if isinstance(value, type) else getattr(value, "__doc__", None)
    return inspect.cleandoc(text) if isinstance(text, str) else ""


def signature_of(value) -> str:
    try:
        return re.sub(r": '?[\w\[\]. |]+'?(?=[,)= ])", "", str(inspect.signature(value)).partition(" -> ")[0])
    except (TypeError, ValueError):
        return "(...)"


def prose_as_markdown(text: str) -> str:
    """Prose of a docstring: ``code`` as code, and no other character as markup."""
    parts = re.split(r"``(.+?)``", text, flags=re.DOTALL)
    return "".join(f"`{' '.join(part.split())}`" if k % 2 else re.sub(r"([\\`*_{}\[\]<>#|$])", r"\\\1", part)
                   for k, part in enumerate(parts))


def docstring_as_markdown(text: str) -> str:
    """A docstring with its examples as blocks of code."""
    pieces, end = [], 0
    text += "\n"
    for match in EXAMPLE.finditer(inspect.cleandoc(text) + "\n"):
        pieces.append((False, text[end:match.start()]))
        pieces.append((True, match.group()))
        end = match.end()
    pieces.append((False, text[end:]))
    written = []
    for is_example, piece in pieces:
        if is_example:
            written.append(f"```pycon\n{piece.rstrip()}\n```")
        elif piece.strip():
            paragraphs = re.split(r"\n\s*\n", piece.strip("\n"))
            written += [f"```text\n{inspect.cleandoc(p)}\n```" if p.startswith("    ") else
                        prose_as_markdown(" ".join(p.split())) for p in paragraphs if p.strip()]
    return "\n\n".join(written)


def entry(title: str, name: str, value) -> str:
    return f"## `{title}.{name}`\n\n```python\n{name}{signature_of(value)}\n```\n\n{docstring_as_markdown(document_of(value))}\n"


def page(title: str, path: str, names) -> str:
    torch = importlib.import_module("rushlight")
    if path == "Tensor":
        owner, is_class = torch.Tensor, True
    else:
        owner, is_class = importlib.import_module(f"rushlight.{path}" if path else "rushlight"), False
    entries = [entry(title, name, getattr(owner, name)) for name in names or public_names(owner, is_class)]
    return f"# {title}\n\n" + "\n".join(entries)


def write_pages(directory: pathlib.Path):
    """Write a page for each of ``PAGES`` and an index; pages that have not changed keep their time."""
    directory.mkdir(exist_ok=True)
    contents = "\n".join(PAGES)
    pages = {name: page(*given) for name, given in PAGES.items()}
    pages["index"] = f"# API reference\n\n```{{toctree}}\n:maxdepth: 1\n\n{contents}\n```\n"
    for name, text in pages.items():
        target = directory / f"{name}.md"
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages(pathlib.Path(sys.argv[1]))
