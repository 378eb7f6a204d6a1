"""Map ``mode`` and ``options`` of compile to settings for the built-in backend."""
from __future__ import annotations

TUNED = {"max_autotune": True}
RECORDED = {"launch_graphs": True}  # for GPUs: the CPU has no launches
MODES = {"default": {}, "reduce-overhead": RECORDED, "max-autotune": TUNED | RECORDED,
         "max-autotune-no-cudagraphs": TUNED,
         "lite": {}}
DEFAULTS: dict = {}  # set through ``torch._inductor.config``
OPTIONS = {"freezing": (bool, "for inference, values that depend only on parameters are computed once"),
           "launch_graphs": (bool, "on a GPU, launches of a program are captured once and replayed as one"),
           "max_autotune": (bool, "choices within templates are measured and cached"),
           **{f"bucket_{name}": (str, f"\"all\": {name} that do not wait for each other are one collective; \"none\"")
              for name in ("all_reduces", "all_gathers", "reduce_scatters")}}
NAMES = {"triton.cudagraphs": "launch_graphs",
         **{f"{name}_fx": name for name in OPTIONS if name.startswith("bucket_")}}
WITHOUT_MEANING = frozenset((  # of PyTorch's options: always in effect, or for other devices
    "epilogue_fusion", "max_autotune_gemm", "max_autotune_pointwise", "shape_padding", "fallback_random",
    "trace.enabled", "trace.graph_diagram",
    "coordinate_descent_tuning", "dce", "cpp_wrapper", "size_asserts", "permute_fusion"))


def chosen(backend, mode, options):
    """Return the options that a backend gets. RuntimeError for unknown modes, options and values."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    if backend not in ("rushlight", "inductor"):
        return {**({"mode": mode} if mode not in (None, "default") else {}),
                **({"options": options} if options else {})}
    found = {**{name: value for name, value in DEFAULTS.items() if value}, **MODES[mode or "default"]}
    for name, value in (options or {}).items():
        name = NAMES.get(name, name.replace("-", "_"))
        if name in WITHOUT_MEANING:
            continue
        if name not in OPTIONS:
            raise RuntimeError(
                f"Unexpected optimization option {name}, known options are {sorted((*OPTIONS, *WITHOUT_MEANING))}")
        kind, _ = OPTIONS[name]
        if not isinstance(value, kind):
            raise RuntimeError(f"Unexpected type of attr {name}, got {type(value).__name__} should be {kind.__name__}")
        if kind is str and value not in ("none", "all"):
            raise RuntimeError(f"Unexpected value of {name}: it must be none or all")
        found[name] = value
    return found
