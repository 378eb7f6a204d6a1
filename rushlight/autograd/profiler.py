"""The profiler under its older name, ``torch.autograd.profiler``."""
from .._src.compat.absent import absent
from ..profiler import EventList, FunctionEvent, record_function
from ..profiler import profile as _profile

__all__ = ["EventList", "FunctionEvent", "profile", "record_function"]
globals().update(absent("torch.autograd.profiler",
                        "there is no NVIDIA or Intel tracer to tell: use torch.profiler.profile", "emit_nvtx emit_itt"))


class profile(_profile):
    """As ``torch.profiler.profile``, with the older parameters; ``enabled=False`` records nothing."""

    def __init__(self, enabled=True, *, use_cpu=True, use_cuda=False, use_device=None, use_kineto=False, **options):
        from ..profiler import ProfilerAction
        super().__init__(schedule=None if enabled else lambda step: ProfilerAction.NONE, **options)

    def table(self, **options) -> str:
        return self.events().table(**options)

    function_events = property(lambda self: self.events() if self.done else None)

    def __str__(self):
        return self.table() if self.done else repr(self)

    @property
    def self_cpu_time_total(self):
        return self.events().self_cpu_time_total
