"""The output of each package for the program of ``docs/walk.md``.  ``python -m tests.docs.walk`` rewrites the page."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from rushlight._src.capture.bytecode import Listing

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "walk.md"
MARK = re.compile(r"<!-- (\w+) -->\n((?:\n| {4}.*\n)*)")  # a piece: its name, then lines that are indented
SETTINGS = {"RUSHLIGHT_CPU": "avx2", "RUSHLIGHT_NUM_THREADS": "2", "RUSHLIGHT_CACHE": "0", "RUSHLIGHT_STORE": "0"}


def shown(page: str) -> dict:
    """The pieces that the page shows, by name."""
    return {name: "".join(line[4:] or "\n" for line in body.strip("\n").splitlines(keepends=True)) + "\n"
            for name, body in MARK.findall(page)}


def rewritten(page: str, pieces: dict) -> str:
    """The page with these pieces."""
    def piece(match):
        lines = "".join(f"    {line}" if line.strip() else line for line in pieces[match[1]].splitlines(keepends=True))
        return f"<!-- {match[1]} -->\n\n{lines}\n"

    return MARK.sub(piece, page)


def made(program: str) -> dict:
    """The pieces as the package makes them now, by name."""
    with tempfile.TemporaryDirectory() as folder:
        script, stages = pathlib.Path(folder, "program.py"), pathlib.Path(folder, "stages")
        script.write_text(program)
        subprocess.run([sys.executable, script], check=True,
                       env={**os.environ, **SETTINGS, "RUSHLIGHT_DEBUG": str(stages)})
        found = {kind.name.partition("_")[2]: {file.stem: file.read_text().replace(f"{folder}/", "")
                                               for file in kind.iterdir()} for kind in stages.iterdir()}
    forward, backward = found["compiled"], found["compiled.backward"]
    captured, primitives = programs(forward["graph"])
    segment, host = programs(forward["output"])
    return {"program": program, "bytecode": bytecode(program), "guards": rest(forward["guards"]), "captured": captured,
            "primitives": primitives,
            "backward": programs(forward["aot"])[0], "kernel": forward["kernels"], "loop": busiest_loop(forward["asm"]),
            "host": host,
            "segment": segment, "gradient": backward["kernels"]}


def bytecode(program: str) -> str:
    """The instructions of the program's function."""
    function = next(c for c in compile(program, "program.py", "exec").co_consts if hasattr(c, "co_code"))
    return "".join(f"{step}\n" for step in Listing(function).instructions if step.op != "NOP")


def programs(text: str) -> list:
    """The programs of a file of Python, each of which follows a comment that names it."""
    return [rest(piece) for piece in re.split(r"^(?=# )", text, flags=re.MULTILINE)[1:]]


def rest(text: str) -> str:
    """A text without its first line."""
    return text.partition("\n")[2].strip("\n") + "\n"


def busiest_loop(assembly: str) -> str:
    """The longest range of machine code from a label to the jump back to it, with no other label between."""
    loops = re.findall(r"^(\.LBB\w+):\n((?:\t.*\n)+?\tj\w+\t\1\n)", assembly, flags=re.MULTILINE)
    label, body = max(loops, key=lambda loop: loop[1].count("\n"))
    return f"{label}:\n{body}".expandtabs(8)


if __name__ == "__main__":
    page = PAGE.read_text()
    PAGE.write_text(rewritten(page, made(shown(page)["program"])))
