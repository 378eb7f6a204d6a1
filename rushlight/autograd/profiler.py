"""The profiler, by its older module name."""
from ..compat.absent import absent
from ..profiler import WHY, record_function

__all__ = ["record_function"]
globals().update(absent("torch.autograd.profiler", WHY, "profile EventList FunctionEvent emit_nvtx emit_itt load_nvprof"))
