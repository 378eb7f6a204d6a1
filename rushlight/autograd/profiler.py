"""The profiler under its older name, ``torch.autograd.profiler``."""
from .._src.core.errors import NoDeviceError
from .._src.core.options import accept_only
from ..profiler import EventList, FunctionEvent, record_function  # noqa: F401
from ..profiler import profile as _profile


class _Emitter:
    """A block that reports operators to a vendor's tracer: none is supported, so only ``enabled=False`` works."""

    def __init__(self, enabled=True, record_shapes=False):
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self):
        if self.enabled:
            raise NoDeviceError(f"{type(self).__name__}: there is no tracer of NVIDIA or Intel to tell",
                                "enabled=False", "use torch.profiler.profile")

    def __exit__(self, *error):
        return False


class emit_nvtx(_Emitter):
    """Operators as ranges of NVTX: refused, since no tracer of NVIDIA is there; ``enabled=False`` does nothing."""


class emit_itt(_Emitter):
    """Operators as tasks of ITT: refused, since no tracer of Intel is there; ``enabled=False`` does nothing."""


class profile(_profile):
    """As ``torch.profiler.profile``, with the older parameters; ``enabled=False`` records nothing."""

    def __init__(self, enabled=True, *, use_cpu=True, use_cuda=False, use_device=None, use_kineto=False, **options):
        from ..profiler import ProfilerAction
        accept_only("torch.autograd.profiler.profile", "select events by their device", use_cpu=(use_cpu, True))
        super().__init__(schedule=None if enabled else lambda step: ProfilerAction.NONE, **options)

    def table(self, **options) -> str:
        return self.events().table(**options)

    function_events = property(lambda self: self.events() if self.done else None)

    def __str__(self):
        return self.table() if self.done else repr(self)

    @property
    def self_cpu_time_total(self):
        return self.events().self_cpu_time_total


class EnforceUnique:
    """Keys that may be seen once."""

    def __init__(self):
        self.seen = set()

    def see(self, *key):
        """RuntimeError for a key that was seen before."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """The number of the step that profilers are in: the greatest that anybody has counted to."""

    _step_dict: dict = {}
    _current_step = 0

    @classmethod
    def init_step_count(cls, requester: str):
        """Register a step counter, which starts at the current step."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Unregister a step counter; return True if it was registered."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Advance a step counter; return the current step."""
        cls._step_dict[requester] = cls._step_dict.get(requester, cls._current_step) + 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        return cls._current_step
