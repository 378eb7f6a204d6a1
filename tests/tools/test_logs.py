"""What the logs say of compiled code, each by its name here and by PyTorch's; stages in files; the line about long
compilations."""
import logging
import re
import subprocess
import sys
import warnings

import pytest

import rushlight as torch
from rushlight._src.core.log import LOGS
from rushlight._src.core.progress import Progress
from rushlight._src.core.settings import settings

HERE = __file__


def lines(caplog, name, call):
    """The records of a log while something is called."""
    with caplog.at_level(logging.DEBUG, logger=f"rushlight.{name}"):
        caplog.clear()
        call()
    return [r.getMessage() for r in caplog.records if r.name == f"rushlight.{name}"]


def test_graph(caplog):
    f = torch.compile(lambda x: torch.relu(x) + 1)
    x = torch.zeros(2)
    captured = lines(caplog, "graph", lambda: f(x))[0]
    assert captured == (
        'captured\ndef program(x0: "float32[2]"):\n    t0 = relu(x0)  # float32[2]\n    t1 = add(t0, 1)  # '
        'float32[2]\n    return t1')


def test_graph_breaks(caplog):
    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    (text,) = lines(caplog, "graph_breaks", lambda: torch.compile(f)(torch.zeros(2)))
    assert "RB006" in text and "test_logs.py" in text and "graph_break" in text


def test_guards_and_recompiles(caplog):
    f = torch.compile(lambda x, flag: x + 1 if flag else x - 1)
    guards = lines(caplog, "guards", lambda: f(torch.zeros(2), True))
    assert len(guards) == 1 and "V[1] is True" in guards[0] and re.search(r"V\[0\]\._rush_meta in k\d+\.seen",
                                                                          guards[0])
    (reason,) = lines(caplog, "recompiles", lambda: f(torch.zeros(2), False))
    assert "flag is True" in reason and "test_logs.py" in reason


def test_dynamic(caplog):
    f = torch.compile(lambda x: x * 2 if x.shape[0] > 5 else x)
    f(torch.zeros(3))
    texts = lines(caplog, "dynamic", lambda: f(torch.zeros(7)))
    assert "n0 stands for V[0].shape[0], which is 7 now" in texts and "assumed: (5 < n0) is True" in texts


def test_aot_fusion_kernels_and_timing(caplog):
    x = torch.zeros(2, 3, requires_grad=True)
    f = torch.compile(lambda x: (x.sin().exp() * 3.25).sum())
    with settings.set(cache="0"):
        for name, pattern in [("aot", r"compiled keeps \(.*\); its backward:\ndef program"),
                              ("fusion", r"nodes -> \d+ kernels"), ("kernels", r"k[0-9a-f]{12}: ")]:
            torch._dynamo.reset()
            from rushlight._src.compiler import segment
            segment.made.clear()
            assert any(re.search(pattern, text) for text in lines(caplog, name, lambda: f(x))), name


def run(script, tmp_path, *options, cwd=None, **environment):
    import os
    path = tmp_path / "script.py"
    path.write_text(script)
    return subprocess.run([sys.executable, *options, str(path)], capture_output=True, text=True, cwd=cwd,
                          env={**os.environ, **environment})


SCRIPT = ("import rushlight as torch\nf = torch.compile(lambda x: (x @ x).relu().sum())\n"
          "x = torch.ones(4, 4, requires_grad=True)\nf(x).backward()\nprint(x.grad[0, 0].item())\n")


def test_torch_logs_by_environment(tmp_path):
    done = run(SCRIPT.replace("import rushlight as torch", "import torch"), tmp_path, "-m", "rushlight",
               TORCH_LOGS="output_code,-fusion,+torch._dynamo,-torch._inductor")
    assert done.stdout == "8.0\n" and "[graph] captured" in done.stderr and "[guards]" in done.stderr
    assert "[output]" in done.stderr  # an artifact that is named is printed whatever its component's level
    assert "[fusion]" not in done.stderr and "[kernels]" not in done.stderr


def test_torch_logs_help_ends_the_import(tmp_path):
    done = run("import torch\nprint('imported')\n", tmp_path, "-m", "rushlight", TORCH_LOGS="help")
    assert done.returncode == 1 and done.stdout == "" and "ValueError: \nTORCH_LOGS Info\n" in done.stderr
    assert re.search(r"^  graph_breaks +where capture stopped", done.stderr, re.M)


@pytest.fixture
def logs():
    """The levels of all logs, which are off afterwards."""
    yield lambda: {name: logging.getLogger(f"rushlight.{name}").level for name in LOGS}
    torch._logging.set_logs()


def test_modules_mean_the_logs_of_their_components(logs):
    from rushlight._logging import COMPONENTS, MODULES, set_by_text
    for module, component in MODULES.items():
        set_by_text(f"+{module}")
        shown = {name for name, level in logs().items() if level}
        assert shown == set(COMPONENTS[component]), module
        set_by_text(f"-{module}")
        assert not any(logs().values()), module


@pytest.mark.parametrize("text", ["+torch,-torch._inductor", "-torch._inductor,+torch", "-inductor, +all"])
def test_parts_are_set_whatever_the_order(logs, text):
    from rushlight._logging import COMPONENTS, set_by_text
    set_by_text(text)
    assert {name for name, level in logs().items() if not level} == set(COMPONENTS["inductor"])


def test_loggers_of_programs_are_printed(capsys):
    from rushlight._logging import follow, set_by_text
    target = logging.getLogger("json.decoder")
    try:
        set_by_text("json.decoder")
        target.info("told")
        target.debug("kept")
        assert capsys.readouterr().err == "[decoder] told\n"
    finally:
        follow(target, logging.NOTSET)
        target.handlers.clear()
        target.propagate = True


@pytest.mark.parametrize("text", ["nosuch", "graph_breaks,nosuch", "+torch._dynamo.nosuch", "no.such.module", "+",
                                  "graph,,guards", "a b"])
def test_unknown_names_of_torch_logs(logs, text):
    from rushlight._logging import set_by_text
    with pytest.raises(ValueError, match=rf"Invalid log settings: {re.escape(text)}, must be a comma separated list "
                                         r"of fully\nqualified[^$]*Valid settings:\nall, "):
        set_by_text(text)
    assert not any(logs().values())


def test_every_name_that_torch_registers_is_known():
    theirs = pytest.importorskip("torch._logging._internal").log_registry
    from rushlight._logging import NAMES
    names = theirs.artifact_names | theirs.log_alias_to_log_qnames.keys()
    assert names - NAMES.keys() == {"custom_format_test_artifact"}


def test_every_stage_in_files(tmp_path):
    folder = tmp_path / "stages"
    done = run(SCRIPT, tmp_path, RUSHLIGHT_DEBUG=str(folder))
    assert done.stdout == "8.0\n" and done.stderr == ""
    names = sorted(p.name for p in folder.iterdir())
    compiled = next(p for p in folder.iterdir() if p.name.endswith("_compiled"))
    assert {"graph.py", "aot.py", "output.py", "guards.txt", "plans.txt"} <= {p.name for p in compiled.iterdir()}
    assert "attached(" in (compiled / "output.py").read_text() and any(n.endswith("_compiled.backward") for n in names)
    for path in folder.rglob("*.py"):
        compile(path.read_text(), str(path), "exec")


def test_stages_of_compiled_functions_by_pytorchs_names(tmp_path):
    eager = "import os, torch\n(torch.ones(3) + 1).exp()\nassert not os.path.exists('debug/torch_compile_debug')\n"
    done = run(eager + SCRIPT.partition("\n")[2] + "torch.compile(lambda x: x.sin() + 1)(x.detach())\n", tmp_path, "-m",
               "rushlight", TORCH_COMPILE_DEBUG="1", TORCH_COMPILE_DEBUG_DIR="debug", cwd=tmp_path)
    assert done.stdout == "8.0\n" and done.stderr == ""
    (of_run,) = (tmp_path / "debug" / "torch_compile_debug").iterdir()
    assert re.fullmatch(r"run_\d{4}(_\d\d){5}_\d{6}-pid_\d+", of_run.name)
    models = of_run / "torchinductor"
    assert sorted(p.name for p in models.iterdir()) == ["model__0_backward_1.1", "model__0_forward_0.0",
                                                        "model__1_inference_2.2"]
    for model in models.iterdir():
        assert {"fx_graph_readable.py", "ir_post_fusion.txt", "output_code.py"} <= {p.name for p in model.iterdir()}
        for path in model.glob("*.py"):
            compile(path.read_text(), str(path), "exec")
    assert "sin(" in (models / "model__1_inference_2.2" / "fx_graph_readable.py").read_text()


@pytest.mark.parametrize("value", ["0", "", "yes"])
def test_stages_are_not_written_unless_it_is_1(tmp_path, monkeypatch, value):
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", value)
    assert settings.compile_debug is False


def test_output_file_and_format_of_torch_logs(tmp_path):
    out = tmp_path / "logs.txt"
    out.write_text("before\n")
    done = run("import torch\ntorch._logging.set_logs(graph=True)\n"
               "import logging\nlogging.getLogger('rushlight.graph').debug('%s\\ntwo', 'one')\n", tmp_path, "-m",
               "rushlight", TORCH_LOGS_OUT=str(out), TORCH_LOGS_FORMAT="%(levelname)s|%(name)s|%(lineno)d|%(message)s")
    expected = "DEBUG|rushlight.graph|4|one\ntwo\n"
    assert done.stderr == expected and out.read_text() == "before\n" + expected


@pytest.mark.parametrize("style, line", [
    ("short", "DEBUG:rushlight.graph:text"), ("basic", "DEBUG:rushlight.graph:text"), ("%(message)s!", "text!"),
    ("", "[graph] text")])
def test_formats(capsys, style, line):
    from rushlight._src.core.log import ToStandardError
    handler = ToStandardError()
    handler.configure("", style)
    handler.emit(logging.LogRecord("rushlight.graph", logging.DEBUG, "f.py", 1, "text", (), None))
    assert capsys.readouterr().err == line + "\n"
    with pytest.raises(ValueError):
        handler.configure("", "no field")


def test_torch_names():
    try:
        torch._logging.set_logs(graph_breaks=True, dynamo=logging.WARNING, output_code=True)
        assert logging.getLogger("rushlight.output").isEnabledFor(logging.DEBUG) and not logging.getLogger(
            "rushlight.guards").level
        torch._logging.set_logs(inductor=logging.DEBUG)
        assert logging.getLogger("rushlight.kernels").level == logging.DEBUG
        with pytest.raises(ValueError, match="no log 'nothing'"):
            torch._logging.set_logs(nothing=True)
    finally:
        torch._logging.set_logs()
    assert not any(logging.getLogger(f"rushlight.{name}").level for name in LOGS)


def test_a_long_compilation_tells_how_far_it_is(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = Progress(lambda: now[0])
    with settings.set(progress=2.0):
        progress.begin("model")
        for _ in range(5):
            now[0] += 0.7
            progress.begin("inner")
            progress.step()
            progress.end()
        progress.end()
        shown = [re.sub(r"py:\d+", "py:N", line.strip()) for line in capsys.readouterr().err.splitlines()]
        place = "model in test_a_long_compilation_tells_how_far_it_is (test_logs.py:N)"
        assert shown == [f"rushlight: compiling {place}: 3 kernels in 2.1 s",
                         f"rushlight: compiling {place}: 4 kernels in 2.8 s",
                         f"rushlight: compiling {place}: 5 kernels in 3.5 s",
                         f"rushlight: compiled {place}: 5 kernels in 3.5 s"]
        monkeypatch.setattr("sys.stderr.isatty", lambda: False)
        progress.begin("into a file")
        now[0] += 9
        progress.step()
        progress.end()
        progress.begin("short")
        progress.step()
        progress.end()
    with settings.set(progress=0):
        progress.begin("silent")
        now[0] += 9
        progress.step()
        progress.end()
    assert capsys.readouterr().err == ""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUSHLIGHT_PROGRESS", "-1")
        with pytest.raises(ValueError, match="RUSHLIGHT_PROGRESS"):
            settings.progress


def test_loggers_by_pytorchs_names():
    assert torch._logging.getArtifactLogger("here", "graph_breaks").name == "rushlight.graph_breaks"
    with pytest.raises(ValueError, match="no log 'nothing'"):
        torch._logging.getArtifactLogger("here", "nothing")
    torch._logging.set_logs(pre_grad_graphs=True, cudagraph_static_inputs=True, sym_node=False)
    torch._logging.set_logs()
