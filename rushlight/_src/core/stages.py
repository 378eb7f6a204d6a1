"""Every stage of each compilation as files: a directory for each plan, a file for each log."""
from __future__ import annotations

import atexit
import datetime
import logging
import os
import re

from .log import LOGS, logger
from .settings import settings

ENDINGS = {"graph": "py", "aot": "py", "output": "py", "asm": "s"}
TITLES = {"graph": "fx_graph_readable", "kernels": "ir_post_fusion", "output": "output_code"}  # as PyTorch calls files
COMPILED = ("compiled", "compiled.backward")  # the operators of captured graphs
OF_CAPTURE = ("guards", "graph_breaks", "recompiles", "dynamic")


class Folder(logging.Handler):
    """Collects log records until a plan is complete (a record of the log ``plans``), and writes them to
    ``root/0007_operator/graph.py``."""

    def __init__(self, root: str):
        super().__init__()
        self.root, self.count, self.texts = os.path.abspath(root), 0, {}

    def install(self):
        """Switch every log on, into this directory (logs to standard error are unchanged)."""
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
        """Write the collected records."""
        if not self.texts:
            return
        folder = os.path.join(self.root, self.directory_of(operator))
        os.makedirs(folder, exist_ok=True)
        for name, texts in self.texts.items():
            with open(os.path.join(folder, f"{self.title_of(name)}.{ENDINGS.get(name, 'txt')}"), "w") as file:
                file.write("\n\n".join(map(self.as_file, [name] * len(texts), texts)) + "\n")
        self.texts = {}
        self.count += 1

    @staticmethod
    def title_of(name: str) -> str:
        """The name of a log's file, without its ending."""
        return name

    def directory_of(self, operator: str) -> str:
        """The name of a plan's directory."""
        return f"{self.count:04d}_{re.sub(r'[^0-9A-Za-z_.]+', '_', operator)}"

    @staticmethod
    def as_file(name: str, text: str) -> str:
        """A record as a piece of its file: the first line of a program's record names it."""
        return f"# {text}" if ENDINGS.get(name) == "py" else text


class CompileDebugFolder(Folder):
    """The same for compiled functions alone, in PyTorch's layout:
    ``torch_compile_debug/run_<time>-pid_<id>/torchinductor/model__0_inference_0.0/fx_graph_readable.py``. A backward
    program has the number of the last function that was compiled before it; the last number counts directories. Forked
    processes write into separate directories."""

    def __init__(self, parent: str):
        super().__init__(os.path.join(parent or os.getcwd(), "torch_compile_debug"))
        self.models, self.began = 0, f"{datetime.datetime.now():%Y_%m_%d_%H_%M_%S_%f}"

    def install(self):
        """Switch every log on, into the directory; functions are planned again, since stored plans log nothing."""
        settings.store = False
        super().install()

    def flush_to(self, operator: str):
        """Write the records collected for a compiled function; of other plans, keep the records of capture alone."""
        if operator in COMPILED:
            self.models += operator == "compiled"
            super().flush_to(operator)
        else:
            self.texts = {name: texts for name, texts in self.texts.items() if name in OF_CAPTURE}

    def directory_of(self, operator: str) -> str:
        if operator != "compiled":
            kind = "backward"
        else:
            kind = "forward" if "aot" in self.texts else "inference"
        number = max(self.models - 1, 0)
        return os.path.join(f"run_{self.began}-pid_{os.getpid()}", "torchinductor",
                            f"model__{number}_{kind}_{self.count}.{self.count}")

    @staticmethod
    def title_of(name: str) -> str:
        return TITLES.get(name, name)
