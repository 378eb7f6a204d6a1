"""A sample of tests over the databases of the installed testing library passes, run as PyTorch's own tests are."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
SAMPLE, FLOOR = 100, 92


def test_a_sample_of_the_databases_passes(tmp_path):
    (tmp_path / "test").mkdir()
    shutil.copy(Path(__file__).with_name("databases.py"), tmp_path / "test" / "test_databases.py")
    results = tmp_path / "results.jsonl"
    asked = {"sample": SAMPLE, "seconds": 1200, "limit": 60}
    done = subprocess.run(
        [sys.executable, "-m", "tests.upstream.worker", "ours", str(tmp_path), "test_databases.py", str(results)],
        cwd=ROOT, input=json.dumps(asked), capture_output=True, text=True, timeout=1500)
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    ended = {row["id"]: row for row in rows if "outcome" in row}
    assert len(ended) == SAMPLE, (rows[-1:], done.stdout[-3000:], done.stderr[-3000:])
    assert rows[-1] == {"finished": SAMPLE}
    passed = [name for name, row in ended.items() if row["outcome"] == "passed"]
    failed = {name: row["text"][-500:] for name, row in ended.items() if row["outcome"] == "failed"}
    assert len(passed) >= FLOOR, "\n\n".join(f"{name}\n{text}" for name, text in failed.items())
