"""``python -m rushlight script.py``: what a script finds, and what the processes find that it spawns."""
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import multiprocessing, sys
import torch
from dataclasses import dataclass

@dataclass
class Point:
    x: float

def work(queue, point):
    queue.put((torch.__file__.split("/")[-2], torch.arange(3.0).sum().item() + point.x, __name__, type(point).__name__))

if __name__ == "__main__":
    print(sys.argv[1:], __file__, sys.modules["__main__"].Point is Point)
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    process = context.Process(target=work, args=(queue, Point(4.0)))
    process.start()
    print(queue.get(timeout=60))
    process.join()
    sys.exit(7)
"""


def test_spawned_processes_find_rushlight_too(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(SCRIPT)
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-m", "rushlight", "program.py", "spawn"], cwd=tmp_path, env={"PYTHONPATH": str(root), "PATH": ""}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines() == ["['spawn'] program.py True", "('rushlight', 7.0, '__mp_main__', 'Point')"]


def test_an_error_is_that_of_the_script(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import torch\n\nraise ValueError(torch.ones(1))\n")
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-m", "rushlight", str(script)], env={"PYTHONPATH": str(root), "PATH": ""}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "ValueError: tensor([1.])" in done.stderr and "program.py\", line 3" in done.stderr
