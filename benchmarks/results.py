"""Figures on disk: one file a processor in ``benchmarks/results/``, one entry a benchmark."""
import argparse
import json
import os
import pathlib
import re
import tempfile

FOLDER = pathlib.Path(__file__).parent / "results"


def processor() -> str:
    """What this machine's processor calls itself, with its model, since servers share a name, and whether it has matrix
    tiles.  It is the real CPU whatever `RUSHLIGHT_CPU` leaves of it: PyTorch, which runs beside, uses all of it."""
    first, _, _ = pathlib.Path("/proc/cpuinfo").read_text().partition("\n\n")
    rows = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    if "model name" not in rows:
        return "unknown"
    family = f"family {rows.get('cpu family', '?')} model {rows.get('model', '?')}"
    return f"{rows['model name']} ({family}{', AMX' if 'amx_tile' in rows.get('flags', '').split() else ''})"


def parser(description: str) -> argparse.ArgumentParser:
    """A benchmark's command line: its docstring as help, and ``--write``."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results/<processor>.json")
    return made


def keep(name: str, figures, options: argparse.Namespace):
    """Puts a benchmark's figures, with the arguments that it was given, into this processor's file if ``--write`` says
    so."""
    if not options.write:
        return
    FOLDER.mkdir(exist_ok=True)
    place = FOLDER / (re.sub(r"\W+", "-", processor()).strip("-").lower() + ".json")
    known = json.loads(place.read_text()) if place.exists() else {}
    given = {key: value for key, value in vars(options).items() if key != "write"
             and value not in (None, "", False, [])}
    known[name] = {"processor": processor(), **given, "figures": figures}
    handle, whole = tempfile.mkstemp(dir=FOLDER)
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps(known, indent=1) + "\n")
    os.chmod(whole, 0o644)
    os.replace(whole, place)
