"""PyTorch's ``torch.profiler``: ``profile``, ``record_function``, ``schedule``."""
from __future__ import annotations

import enum
import functools
import os
import socket
import sys
import threading
import time
import uuid
import warnings

from .._src.core.native import Tensor
from .._src.core.op import OPS
from .._src.core.options import accept_only
from .._src.core.watching import Watching
from .events import EventList, FunctionEvent

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_recorders: list = []  # those that run now


class ProfilerActivity(enum.Enum):
    """Profiled activities: operators on the CPU; the others are accepted and record nothing."""

    CPU, XPU, MTIA, CUDA, HPU, PrivateUse1 = range(6)


class ProfilerAction(enum.Enum):
    """Action of a step."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def kineto_available() -> bool:
    """Whether traces can be written: they can, though not by the library of that name."""
    return True


def supported_activities() -> set:
    """Return the activities that can be recorded: those of the CPU."""
    return {ProfilerActivity.CPU}


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0):
    """Steps to skip, to warm up in, and to record, ``repeat`` times over (0: for ever).  AssertionError for senseless
    numbers.

    >>> from rushlight.profiler import schedule
    >>> [schedule(wait=1, warmup=1, active=2)(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments: wait={wait}, warmup={warmup}, active={active} (at least 1), "
            f"repeat={repeat}, skip_first={skip_first}")
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step number must be non-negative, got {step}")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait and repeat != 1:
            step += wait
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        at = step % length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == length - 1 else ProfilerAction.RECORD

    return action


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Record every step: the schedule of a profile that was given none."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False,
                              use_python_export: bool = False):
    """Return a function for ``on_trace_ready`` that writes Chrome traces to a directory.  ``use_python_export`` has
    no effect: Python writes every trace."""
    def handle(prof):
        os.makedirs(dir_name, exist_ok=True)
        name = f"{worker_name or f'{socket.gethostname()}_{os.getpid()}'}.{time.time_ns()}.pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, name + (".gz" if use_gzip else "")))

    return handle


class Recorder(Watching):
    """Times each operator call while it is active."""

    def __init__(self, shapes, memory, stack, flops):
        self.shapes, self.memory, self.stack, self.flops = shapes, memory, stack, flops
        self.events, self.open = [], {}

    def begin(self, name, args=(), is_user=False) -> FunctionEvent:
        around = self.open.setdefault(threading.get_ident(), [])
        event = FunctionEvent(name, 0.0, around[-1] if around else None, list(map(shape_of, args)) if self.shapes
                              else None, users_lines() if self.stack else (),
                              threading.get_ident(), is_user)
        self.events.append(event)
        around.append(event)
        event.start = time.perf_counter_ns() / 1e3
        return event

    def finish(self, event):
        event.end = time.perf_counter_ns() / 1e3
        around = self.open[event.thread]
        if event in around:
            del around[around.index(event):]

    def around(self, op, args, kwargs, run):
        event = self.begin(shown_name(op), args)
        try:
            result = run()
        finally:
            self.finish(event)
        if self.memory and not op.traits.get("composite"):
            event.cpu_memory_usage = new_bytes(result, (*args, *kwargs.values()))
            for parent in ancestors(event):
                parent.cpu_memory_usage += event.cpu_memory_usage
        if self.flops and not op.traits.get("composite"):
            from ..utils.flop_counter import flops_of
            event.flops = flops_of(op, args, kwargs)
        return result


def ancestors(event):
    while (event := event.cpu_parent) is not None:
        yield event


def shown_name(op) -> str:
    """An operator as profilers name it: ``aten::relu``."""
    if op.name.startswith("compiled"):
        return "CompiledFunction" + ("Backward" if op.name.endswith("backward") else "")
    where, _, last = op.name.rpartition(".")
    if OPS.get(op.name) is not op and last == "backward":
        return f"aten::{where.rpartition('.')[2].strip('_')}_backward"
    shown = f"{where}_{last}" if where in ("linalg", "special", "fft") else last
    return f"{'prims' if where == 'prims' else 'aten'}::{shown}"


def shape_of(value):
    return list(value.shape) if isinstance(value, Tensor) else [shape_of(v)
                                                                for v in value] if isinstance(
                                                                        value, (list, tuple)) else []


def new_bytes(result, given) -> int:
    """Return the bytes of the results that own their memory."""
    old = {id(t._rush_storage) for t in given if isinstance(t, Tensor)}
    results = result if isinstance(result, (list, tuple)) else (result,)
    return sum({id(t._rush_storage): t._rush_storage.nbytes for t in results if isinstance(t, Tensor)
                and id(t._rush_storage) not in old}.values())


def users_lines() -> list:
    """The lines outside this package that led here, the innermost first."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found


class record_function:
    """Names what runs in a ``with`` block, or in a decorated function, for the profilers that watch.

    >>> import rushlight as torch
    >>> with torch.profiler.profile() as prof:
    ...     with torch.profiler.record_function("mine"):
    ...         y = torch.ones(2) + 1
    >>> "mine" in [event.key for event in prof.key_averages()]
    True
    """

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args

    def __enter__(self):
        self.running = [(recorder, recorder.begin(self.name, is_user=True)) for recorder in _recorders]
        return self

    def __exit__(self, *exception):
        for recorder, event in self.running:
            recorder.finish(event)

    def __call__(self, function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            with record_function(self.name):
                return function(*args, **kwargs)

        return run


def create_trace_id() -> str:
    """A random name for a trace: 32 hexadecimal digits."""
    return uuid.uuid4().hex.upper()


class profile:
    """Watches the operators of its ``with`` block: ``key_averages().table()``, ``events()``,
    ``export_chrome_trace(path)``.

    ``schedule`` says what to do in each ``step()``; ``on_trace_ready(profile)`` is called when a round is recorded.
    ``acc_events`` keeps the events of all cycles; otherwise they are those of the last one.  A cycle has a trace id,
    which ``custom_trace_id_callback()`` gives.  ``record_shapes``, ``profile_memory``, ``with_stack`` and
    ``with_flops`` add columns.

    >>> import rushlight as torch
    >>> x = torch.ones(8, 8)
    >>> with torch.profiler.profile(with_flops=True) as prof:
    ...     y = (x @ x).relu() + x.relu()
    >>> [(e.key, e.count, e.flops) for e in prof.key_averages()]
    [('aten::matmul', 1, 1024), ('aten::relu', 2, 0), ('aten::add', 1, 0)]
    """

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False,
                 profile_memory=False, with_stack=False, with_flops=False,
                 with_modules=False, experimental_config=None, execution_trace_observer=None, acc_events=False,
                 use_cuda=None, custom_trace_id_callback=None):
        accept_only("torch.profiler.profile", "leave it out", experimental_config=(experimental_config, None),
                    execution_trace_observer=(execution_trace_observer, None))
        self.acc_events, self.custom_trace_id_callback, self.trace_id = acc_events, custom_trace_id_callback, None
        self.activities = set(activities) if activities else supported_activities()
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
            self.activities = (self.activities | {ProfilerActivity.CUDA} if use_cuda
                               else self.activities - {ProfilerActivity.CUDA})
        self.schedule, self.on_trace_ready = schedule or _default_schedule_fn, on_trace_ready
        self.record_shapes, self.profile_memory, self.with_stack, self.with_flops = (record_shapes, profile_memory,
                                                                                     with_stack, with_flops)
        self.step_num, self.recorder, self.done, self.metadata = 0, None, None, {}
        self.action, self.step_event = ProfilerAction.NONE, None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        self.stop()

    def start(self):
        """Begins, as entering the block does."""
        self.turn(self.schedule(self.step_num))

    def stop(self):
        """Ends; what was recorded is complete."""
        if self.recorder is not None:
            self.finish()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self.action = ProfilerAction.NONE

    def step(self):
        """Begin the next step of the program."""
        before = self.action
        self.step_num += 1
        if before is ProfilerAction.RECORD_AND_SAVE:
            self.finish()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self.turn(self.schedule(self.step_num))

    def turn(self, action):
        """Begins a step."""
        self.action = action
        recording = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and self.recorder is None:
            self.recorder = Recorder(self.record_shapes or self.with_flops, self.profile_memory, self.with_stack,
                                     self.with_flops)
            self.trace_id = (self.custom_trace_id_callback or create_trace_id)()
            self.recorder.__enter__()
            _recorders.append(self.recorder)
        if not recording and self.recorder is not None:
            self.finish()
        if self.recorder is not None:
            if self.step_event is not None:
                self.recorder.finish(self.step_event)
            self.step_event = self.recorder.begin(f"ProfilerStep#{self.step_num}",
                                                  is_user=True) if self.step_num else None

    def finish(self):
        """Takes the recorder away."""
        if self.step_event is not None:
            self.recorder.finish(self.step_event)
            self.step_event = None
        _recorders.remove(self.recorder)
        self.recorder.__exit__(None, None, None)
        before = list(self.done or ()) if self.acc_events else []
        self.done = EventList([*before, *self.recorder.events], self.record_shapes, self.profile_memory,
                              self.with_flops)
        self.recorder = None

    def events(self) -> EventList:
        """Return the recorded events.  AssertionError before any recording."""
        if self.done is None:
            raise AssertionError("the profiler has recorded nothing yet: leave its block, or call stop(), first")
        return self.done

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name=False) -> EventList:
        """Sums by name."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str, use_python_export: bool = False):
        """Writes what was recorded for chrome://tracing; gzipped if the name ends in .gz.  ``use_python_export``
        changes nothing: Python writes it."""
        self.events().export_chrome_trace(path, {"trace_id": self.trace_id})

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total"):
        """Writes stacks for flame graphs; needs ``with_stack``."""
        self.events().export_stacks(path, metric)

    def set_custom_trace_id_callback(self, callback):
        """Sets the function that gives later cycles their trace id."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The trace id of the current cycle, or of the last one; None before the first."""
        return self.trace_id

    def add_metadata(self, key: str, value: str):
        self.metadata[key] = value

    def preset_metadata_json(self, key: str, value: str):
        self.metadata[key] = value

    add_metadata_json = preset_metadata_json
