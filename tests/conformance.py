"""Runs the conformance harness (where it exists) and fails if fewer entries pass than recorded in ``conformance_floor.json``."""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def passed(harness: str, arguments: list) -> int:
    """How many entries of one run pass."""
    command = [sys.executable, harness, "--package", "rushlight", *arguments, "--jobs", "2", "--timeout", "60"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    summary = output.strip().splitlines()[-1] if output.strip() else "no output"
    print(summary, flush=True)
    found = re.search(r": (\d+) of (\d+) pass", summary)
    return int(found[1]) if found else -1


def main(harness: str) -> int:
    if not pathlib.Path(harness).exists():
        print("no conformance harness here: skipped")
        return 0
    floors = json.loads((ROOT / "tests" / "conformance_floor.json").read_text())
    short = [run for run, floor in floors.items() if passed(harness, run.split()) < floor]
    for run in short:
        print(f"conformance fell: {run} passes fewer than {floors[run]} entries")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
