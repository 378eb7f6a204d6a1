"""Compiling, linking and the disk cache."""

import ctypes
import inspect
import os
import subprocess
import sys
import threading

import pytest

from rushlight._src.core import cache
from rushlight._src.core.apart import apart
from rushlight._src.core.llvm import loader
from rushlight._src.devices.cpu.llvm import jit, stubs
from rushlight._src.devices.cpu.llvm.compile_queue import CompileQueue
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.values import Value
from rushlight._src.devices.cpu.llvm.generate import Agreement
from rushlight._src.devices.cpu.llvm.types import i64, ptr


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    return tmp_path


def adding(number):
    module = Module()
    f = module.function("add", [("x", i64)], i64)
    f.ret(f.add(f.parameters[0], number))
    return module.text()


def call(addresses, x):
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(addresses["add"])(x)


def test_build_remembers(folder):
    texts = []

    def text():
        texts.append(1)
        return adding(5)

    assert call(jit.build("remembered", text, ["add"]), 2) == 7
    jit.build("remembered", text, ["add"])
    jit.forget()
    assert call(jit.build("remembered", text, ["add"]), 2) == 7  # from disk
    assert len(texts) == 1


def test_functions_of_an_object_are_loaded_one_by_one(folder):
    def text():
        module = Module()
        for number in (1, 2):
            f = module.function(f"add{number}", [("x", i64)], i64)
            f.ret(f.add(f.parameters[0], number))
        return module.text()

    digest, _ = jit.origin(jit.build("one by one", text, ["add1", "add2"])["add1"])
    jit.forget()
    first, second = (jit.fetch(digest, f"add{number}") for number in (1, 2))
    assert call({"add": first}, 4) == 5 and call({"add": second}, 4) == 6
    assert jit.fetch(digest, "add1") == first


def test_what_was_built_under_another_folder_is_found(tmp_path, monkeypatch):
    for name in ("first", "second"):
        monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / name))
        address = jit.build("under another folder", lambda: adding(3), ["add"])["add"]
    digest, _ = jit.origin(address)
    jit.forget()
    assert call({"add": jit.fetch(digest, "add")}, 4) == 7


def test_imports_are_symbols():
    inner = jit.build("inner", lambda: adding(1), ["add"])["add"]
    module = Module()
    f = module.function("add", [("x", i64)], i64)
    f.ret(f.call("outside", [f.mul(f.parameters[0], 10)], i64))
    text = module.text()
    assert call(jit.build(text, lambda: text, ["add"], {"outside": inner}), 4) == 41


def test_malformed_text_is_refused():
    with pytest.raises(RuntimeError):
        jit.compile_object("define nonsense")


def test_unknown_symbol_is_refused(folder):
    module = Module()
    f = module.function("add", [("x", i64)], i64)
    f.ret(f.call("no_such_function_anywhere", [f.parameters[0]], i64))
    with pytest.raises(RuntimeError, match="no_such_function_anywhere"):
        jit.link(jit.compile_object(module.text()), ["add"])


def entries(folder):
    return [path for path in folder.rglob("*") if path.is_file() and path.parent != folder]


def test_cache_round_trip(folder):
    assert cache.get("plan", "k") is None
    assert cache.put("plan", "k", b"value")
    assert cache.get("plan", "k") == b"value"
    assert cache.get("object", "k") is None
    assert len(entries(folder)) == 1


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:10] + b"x" + b[11:], lambda b: b"",
                                    lambda b: b + b"x"])
def test_damaged_entries_are_dropped(folder, damage):
    cache.put("plan", "k", b"value" * 10)
    path, = entries(folder)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("plan", "k") is None
    assert cache.put("plan", "k", b"new") and cache.get("plan", "k") == b"new"


def test_unwritable_folder_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(blocked))
    assert not cache.put("plan", "k", b"value")
    assert cache.get("plan", "k") is None


def test_disabled(monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE", "0")
    assert not cache.put("plan", "k", b"value") and cache.get("plan", "k") is None


def test_processes_share_the_cache(folder):
    program = ("from tests.compiler.test_jit import *; import rushlight._src.devices.cpu.llvm.jit as jit\n"
               "assert call(jit.build('shared', lambda: adding(3), ['add']), 1) == 4")
    workers = [subprocess.Popen([sys.executable, "-c", program], env=os.environ, cwd=os.getcwd()) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    # this one, and the thread pool where importing the package builds it
    assert 1 <= len(entries(folder / "object")) <= 2


def test_unknown_cpu_setting_is_refused():
    program = "from rushlight._src.devices.cpu.llvm.features import host; host()"
    environment = {**os.environ, "RUSHLIGHT_CPU": "fast"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert "RUSHLIGHT_CPU" in done.stderr


def test_both_ways_of_linking_agree():
    inner = jit.build("inner", lambda: adding(1), ["add"])["add"]
    module = Module()
    f = module.function("add", [("x", i64)], i64)
    f.ret(f.call("outside", [f.mul(f.parameters[0], 10)], i64))
    image = jit.compile_object(module.text())
    ways = (loader.load, jit._linker.by_llvm)
    assert [call(way(image, ["add"], {"outside": inner}).functions, 4) for way in ways] == [41, 41]


def test_other_formats_are_left_to_llvm():
    for image in (b"", b"\xcf\xfa\xed\xfe" + bytes(60), b"\x7fELF\x02\x01" + bytes(58)):
        with pytest.raises(loader.Unknown):
            loader.load(image, [])


def test_a_warm_start_needs_no_llvm(folder):
    program = "import rushlight, sys; print((rushlight.ones(3) + 1).tolist(), 'llvmlite.binding' in sys.modules)"
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
            for _ in range(2)]
    assert runs[0][-1] == "True" and runs[1][-1] == "False" and runs[0][:3] == ["[2.0,", "2.0,", "2.0]"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_data_of_its_own():
    def counting():
        module = Module()
        module.data("count", "i64", "42")
        f = module.function("add", [("x", i64)], i64)
        after = f.add(f.load(i64, Value("@count", ptr)), f.parameters[0])
        f.store(after, Value("@count", ptr))
        f.ret(after)
        return module.text()

    found = jit.build("counting", counting, ["add"])
    child = os.fork()
    if child == 0:
        os._exit(call(found, 8) != 50)
    assert os.waitpid(child, 0)[1] == 0
    assert call(found, 0) == 42


# --- ahead of need ----------------------------------------------------------------------------------------------------
def test_what_is_built_ahead_runs_after_the_block_and_in_the_next_process(folder):
    with jit.ahead():
        built = [jit.build(f"ahead {k}", lambda: adding(k), ["add"]) for k in range(3)]
        again = jit.build("ahead 1", lambda: pytest.fail("it is being compiled"), ["add"])
        assert again == built[1] and not entries(folder)
    assert [call(found, 10) for found in built] == [10, 11, 12]
    assert jit.build("ahead 1", lambda: pytest.fail("it is compiled"), ["add"]) == built[1]
    digest, name = jit.origin(built[2]["add"])
    jit.forget()
    assert call({"add": jit.fetch(digest, name)}, 10) == 12  # from disk


def test_settle_makes_it_ready_within_the_block(folder):
    with jit.ahead(), jit.ahead():
        built = jit.build("ahead and settled", lambda: adding(7), ["add"])
        jit.settle()
        assert call(built, 1) == 8


def test_another_thread_waits_for_what_is_begun(folder):
    found = []
    with jit.ahead():
        jit.build("ahead for two", lambda: adding(9), ["add"])
        other = threading.Thread(target=lambda: found.append(call(jit.build("ahead for two",
                                                                            lambda: pytest.fail("it is begun"),
                                                                            ["add"]), 1)))
        other.start()
        other.join()
    assert found == [10]


def test_malformed_text_is_refused_at_the_end_and_the_rest_is_built(folder):
    with pytest.raises(RuntimeError, match="nonsense"):
        with jit.ahead():
            jit.build("ahead and wrong", lambda: "define nonsense", ["add"])
            right = jit.build("ahead and right", lambda: adding(1), ["add"])
    assert call(right, 1) == 2


def test_an_interrupted_wait_goes_on_later(folder, monkeypatch):
    def interrupted(one):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch, jit.ahead():
        built = jit.build("ahead and interrupted", lambda: adding(4), ["add"])
        patch.setattr(jit, "_settle", interrupted)
    jit.settle()
    assert call(built, 1) == 5


def test_the_second_thread_ends_and_the_switch_interval_is_as_before(folder, monkeypatch):
    ended = threading.Event()

    class Watched(CompileQueue):
        def run(self):
            super().run()
            ended.set()

    monkeypatch.setattr(jit, "CompileQueue", Watched)
    before = sys.getswitchinterval()
    with jit.ahead():
        jit.build("ahead once", lambda: adding(3), ["add"])
        assert sys.getswitchinterval() <= before
    assert sys.getswitchinterval() == before and ended.wait(60)


def test_a_third_thread_takes_its_share(monkeypatch):
    working = []

    class Idle(CompileQueue):
        def run(self):
            """Nothing is done on the second thread."""

    line = Idle()
    monkeypatch.setattr("rushlight._src.devices.cpu.llvm.compile_queue.generate",
                        lambda text, *rest: working.append((text, threading.current_thread())) or text.encode())
    waiting = [line.add(text, 1) for text in ("; many streams", "a", "b")]
    apart(line.share)
    line.end()
    assert [text for text, _ in working] == ["a", "b", "; many streams"] and [one.image()
                                                                              for one in waiting] == [b"; many streams",
                                                                                                      b"a", b"b"]
    # it runs signal handlers, whose exceptions could leave LLVM's lock locked
    assert threading.main_thread() not in {thread for _, thread in working}


def test_what_another_thread_is_asked_for_raises_here():
    with pytest.raises(ZeroDivisionError):
        apart(lambda: 1 // 0)


def test_threads_that_want_a_setting_otherwise_wait():
    seen = []
    setting = Agreement(seen.append, rest=True)
    inside, leave = threading.Event(), threading.Event()

    def first():
        with setting.agreed(False):
            inside.set()
            leave.wait(60)

    def second():
        with setting.agreed(True):
            seen.append("second")

    threads = [threading.Thread(target=work) for work in (first, second)]
    threads[0].start()
    inside.wait(60)
    threads[1].start()
    with setting.agreed(False):  # agrees with the first, and does not wait
        assert seen == [False]
    leave.set()
    for thread in threads:
        thread.join(60)
    assert seen == [False, True, "second"] and setting.value is True


def test_more_jumps_than_a_page_holds():
    found = {stubs.new() for _ in range(2 * stubs.SIZE // stubs.EACH)} if stubs.possible() else {0}
    target = jit.build("behind a jump", lambda: adding(2), ["add"])["add"]
    for jump in found if stubs.possible() else ():
        stubs.lead(jump, target)
        assert call({"add": jump}, 5) == 7


def test_loops_stay_as_written_but_for_modules_of_many_streams(monkeypatch):
    chosen = []
    monkeypatch.setattr(jit, "generate", inspect.unwrap(jit.generate))  # machine code of earlier runs is not found
    monkeypatch.setattr("llvmlite.binding.set_option", lambda name, option: chosen.append(option))
    jit.compile_object(adding(1))
    assert chosen == ["-disable-lsr=1", "-disable-lsr=0"]
    module = Module(many_streams=True)
    module.function("nothing", []).ret()
    jit.compile_object(module.text())
    assert len(chosen) == 2


def test_no_other_thread_is_waited_for_where_python_lets_none_import():
    import _imp

    assert apart(threading.current_thread) is not threading.main_thread()
    _imp.acquire_lock()  # as while a finder is asked
    try:
        assert apart(threading.current_thread) is threading.main_thread()
    finally:
        _imp.release_lock()
