"""Answers of PyTorch that take long to get: kept beside machine code, under a digest of all that they follow from."""
import json
import os
import sys
from pathlib import Path

import torch

from .startup.machine_code import digest_of, find_or_make


def keep_answer(make, *question: str, files=()):
    """Return what ``make()`` returns, a JSON value: from ``MACHINE_CODE``, if that names a directory where it is.

    ``question``: the arguments as strings; ``files``: paths of the files that ``make`` is written in.
    """
    if not (directory := os.environ.get("MACHINE_CODE")):
        return make()
    texts = [Path(file).read_text(encoding="utf-8") for file in files]
    name = digest_of("answer", torch.__version__, sys.version, *question, *texts)
    return json.loads(find_or_make(directory, name, lambda: json.dumps(make()).encode()))
