"""Every stage of each compilation as files: a folder for each plan, a file for each log."""
from __future__ import annotations

import atexit
import logging
import os
import re

from .log import LOGS, logger

ENDINGS = {"graph": "py", "aot": "py", "output": "py", "asm": "s"}


class Folder(logging.Handler):
    """Collects what is logged until a plan is complete (the log ``plans`` says so), and writes it to
    ``root/0007_operator/graph.py``."""

    def __init__(self, root: str):
        super().__init__()
        self.root, self.count, self.texts = os.path.abspath(root), 0, {}

    def install(self):
        """Switches every log on, into this folder (what goes to standard error stays as it is)."""
        os.makedirs(self.root, exist_ok=True)
        for name in LOGS:
            target = logger(name)
            target.addHandler(self)
            target.setLevel(logging.DEBUG)
            target.propagate = False
        atexit.register(self.flush_to, "unfinished")

    def emit(self, record):
        name = record.name.rpartition(".")[2]
        self.texts.setdefault(name, []).append(self.format(record))
        if name == "plans":
            self.flush_to(record.getMessage().partition(":")[0])

    def flush_to(self, operator: str):
        """Writes what was collected."""
        if not self.texts:
            return
        folder = os.path.join(self.root, f"{self.count:04d}_{re.sub(r'[^0-9A-Za-z_.]+', '_', operator)}")
        os.makedirs(folder, exist_ok=True)
        for name, texts in self.texts.items():
            with open(os.path.join(folder, f"{name}.{ENDINGS.get(name, 'txt')}"), "w") as file:
                file.write("\n\n".join(map(self.as_file, [name] * len(texts), texts)) + "\n")
        self.texts = {}
        self.count += 1

    @staticmethod
    def as_file(name: str, text: str) -> str:
        """A record as a piece of its file: the first line of a program's record names it."""
        return f"# {text}" if ENDINGS.get(name) == "py" else text
