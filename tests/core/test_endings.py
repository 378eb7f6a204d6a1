"""What objects do when Python ends: their ``__del__`` may compute, with plans that are made only then."""
import os
import subprocess
import sys
from pathlib import Path

from ..startup.machine_code import search_path

PROGRAM = """
import sys
import rushlight as torch
n = int(sys.argv[1])

class Last:
    def __del__(self):
        x = (torch.ones(n, 3) @ torch.full((3, n), 2.0)).softmax(-1)
        w = torch.ones(n, requires_grad=True)
        (torch.nn.functional.gelu(w) * 2).sum().backward()
        print(round(x.sum().item()), tuple(w.grad.shape), torch.rand(n, 4).std(0).cumsum(0).shape[0])

kept = Last()
torch.compile(lambda x: (x * 3.25 + n).sqrt() + n * 0.37)(torch.ones(n))  # LLVM is there
"""


def test_plans_are_made_while_python_ends(tmp_path):
    environment = {**os.environ, "RUSHLIGHT_CACHE": str(tmp_path), "PYTHONPATH": search_path(Path(__file__).parents[2])}
    for size in (7, 8):  # the second time much is found in the cache
        made = subprocess.run([sys.executable, "-c", PROGRAM, str(size)], capture_output=True, text=True,
                              env=environment, timeout=1500)
        assert made.stdout.strip() == f"{size} ({size},) 4", made.stderr
        assert "Error" not in made.stderr
