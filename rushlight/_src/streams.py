"""Streams and events of devices: ``torch.Stream`` and ``torch.Event``."""
from __future__ import annotations

from .core.devices import Registry, device as Device, placed
from .core.errors import NoDeviceError


def accelerator() -> Device:
    """Current device of the accelerator.  NoDeviceError if there is none."""
    if Registry.present() is None:
        raise NoDeviceError("Cannot access accelerator device when none is available.", "a device other than the CPU",
                            "call torch.accelerator.is_available() first")
    return placed(Registry.present())


def device_given(value) -> Device:
    """Device, with its index, from a user's argument: a device, an index of the accelerator, or None."""
    if value is None:
        return accelerator()
    found = placed(Device(accelerator().type, value) if isinstance(value, int) else value)
    if found.index is None:
        raise NoDeviceError(f"device '{found}' has no streams: its calls are synchronous",
                            "an accelerator's device")
    return found


class Stream:
    """A queue of a device's work, executed in order.  ``Stream(device, priority=0)`` is another queue; a ``with`` block
    enqueues the work of the thread in it.

    Results of another stream are available after ``wait_stream``, ``wait_event`` or ``synchronize``.
    """

    def __init__(self, device=None, *, priority=0, stream_id=None, device_index=None, device_type=None):
        where = device_given(device if device_index is None else device_index)
        self.device, self.outer = where, []
        self.stream_id = self._own.new(priority) if stream_id is None else stream_id

    _own = property(lambda self: self.device.provider.streams(self.device.index))
    device_index = property(lambda self: self.device.index)
    device_type = property(lambda self: self.device.type)
    priority = property(lambda self: self._own.priority(self.stream_id), doc="The lower, the sooner its work is done.")

    def query(self) -> bool:
        """True if all work is done."""
        return self._own.done(self.stream_id)

    def synchronize(self):
        """Wait until all work is done."""
        self._own.synchronize(self.stream_id)

    def record_event(self, event=None) -> "Event":
        """Record an event, a new one unless given, after the work that is enqueued in the stream."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        """Make work that is enqueued later wait for the event."""
        event.wait(self)

    def wait_stream(self, stream):
        """Make work that is enqueued later wait for all work that another stream has."""
        self.wait_event(stream.record_event())

    def __enter__(self):
        provider, index = self.device.provider, self.device.index
        before = provider.current()
        self.outer.append((before, self._own.current()))
        provider.set_current(index)
        self._own.enter(self.stream_id)
        return self

    def __exit__(self, *error):
        index, stream = self.outer.pop()
        self._own.enter(stream)
        self.device.provider.set_current(index)

    def __eq__(self, other):
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self):
        return hash((self.device, self.stream_id))

    def __repr__(self):
        return (f"torch.Stream device_type={self.device.type}, device_index={self.device.index}, "
                f"stream_id={self.stream_id}")


class StreamContext:
    """A block on another stream; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error):
        if self.stream is not None:
            self.stream.__exit__(*error)


class Event:
    """A marker in a stream.  ``enable_timing`` allows measuring the time between two events."""

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        if interprocess:
            raise NotImplementedError("events of several processes are not there")
        self.device, self.timed, self.mark = device_given(device), enable_timing, None

    _own = property(lambda self: self.device.provider.streams(self.device.index))
    event_id = property(lambda self: id(self.mark) if self.mark is not None else 0)

    def record(self, stream=None):
        """Record the event at the end of the work of a stream (default: the current one)."""
        stream = current_stream(self.device) if stream is None else stream
        if stream.device is not self.device:
            raise RuntimeError(f"Event device {self.device} does not match recording stream's device {stream.device}.")
        self.mark = self._own.mark(stream.stream_id)

    def query(self) -> bool:
        """True if the work before the event is done, or if the event was never recorded."""
        return self.mark is None or self._own.passed(self.mark)

    def wait(self, stream=None):
        """Make later work of a stream (default: the current one) wait for the event."""
        stream = current_stream(self.device) if stream is None else stream
        if self.mark is None:
            return
        if stream.device is self.device:
            self._own.wait(stream.stream_id, self.mark)
        else:
            self.synchronize()

    def synchronize(self):
        """Wait until the work before the event is done."""
        if self.mark is not None:
            self._own.reach(self.mark)

    def elapsed_time(self, end_event) -> float:
        """Milliseconds from this event to another.  RuntimeError unless both were made with ``enable_timing``, recorded
        and reached."""
        if not (self.timed and end_event.timed):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self.mark is None or end_event.mark is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return self._own.elapsed(self.mark, end_event.mark)

    def __repr__(self):
        return (f"torch.Event device_type={self.device.type}, device_index={self.device.index}, "
                f"event_flag={self.event_id}")


def current_stream(device=None) -> Stream:
    """Current stream of the calling thread on a device (default: the accelerator's current one)."""
    where = device_given(device)
    return Stream(where, stream_id=where.provider.streams(where.index).current())


def set_stream(stream: Stream):
    """Make this stream, and its device, current in the calling thread."""
    stream.device.provider.set_current(stream.device.index)
    stream._own.enter(stream.stream_id)
