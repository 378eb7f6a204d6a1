"""Every setting: its name, its environment variable, its default, and a sentence.

    >>> from rushlight._src.core.settings import settings
    >>> settings.kernels
    True
    >>> with settings.set(kernels=False):
    ...     settings.kernels
    False

A value set here wins over the environment, which is read whenever the setting is; one set for a block wins over both,
in the thread that runs the block.
"""
from __future__ import annotations

import contextlib
import os
import threading


class Overrides(threading.local):
    """Values of settings by name that hold in this thread alone."""

    values: dict = {}


class Setting:
    """One row of the table; ``read`` converts the environment's string into the value, or raises ValueError.

    ``aliases``: further variables; the first that is not empty is used if ``variable`` is empty."""

    def __init__(self, variable: str, default, read, text: str, aliases: tuple = ()):
        self.variable, self.default, self.read, self.__doc__ = variable, default, read, text
        self.names = (variable, *aliases)

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, table, owner=None):
        if table is None:
            return self
        for values in (table.overrides.values, table.chosen):
            if self.name in values:
                return values[self.name]
        variable = next((name for name in self.names if os.environ.get(name)), None)
        if variable is None:
            return self.default
        text = os.environ[variable]
        try:
            return self.read(text)
        except ValueError as error:
            raise ValueError(f"{variable} is {text!r}: {error}. {self.__doc__}") from None

    def __set__(self, table, value):
        table.chosen[self.name] = value


def switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("it must be 0 or 1")
    return text == "1"


def is_one(text: str) -> bool:
    """True if a variable of another project, whose other values are not errors, is 1."""
    return text == "1"


def yes(text: str) -> bool:
    return text.lower() in ("1", "y", "yes", "true")


def one_of(*choices):
    def read(text):
        if text.lower() not in choices:
            raise ValueError(f"it must be one of {', '.join(choices)}")
        return text.lower()
    return read


def count(text: str) -> int:
    first = text.split(",")[0].strip()  # OMP_NUM_THREADS may list a number for each level
    if not first.isdigit() or int(first) < 1:
        raise ValueError("it must be a number from 1")
    return int(first)


def whole(text: str) -> int:
    if not text.strip().isdigit():
        raise ValueError("it must be a number from 0")
    return int(text)


def seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError("it must be a number of seconds, 0 or more")
    return value


def foreign_count(text: str):
    """A count that another library reads too: an invalid value is ignored, because it may be valid there."""
    try:
        return count(text)
    except ValueError:
        return None


class Settings:
    """The table.  ``settings.name`` reads, assignment overrides for the process, ``with settings.set(name=value):`` for
    a block and its thread."""

    native = Setting("RUSHLIGHT_NATIVE", True, switch, "Whether the hot path is compiled; read once, at import.")
    kernels = Setting("RUSHLIGHT_KERNELS", True, switch,
                      "Whether operators run by generated kernels; if not, all but contractions run by the NumPy "
                      "reference implementation.")
    cpu = Setting("RUSHLIGHT_CPU", "native", one_of("generic", "avx2", "avx512", "vnni", "neon", "amx-model", "native"),
                  "Instruction sets that generated code may use and torch.cpu reports: all of the CPU's, those of a "
                  "level (docs/devices.md), or all with a model of AMX tiles; read once.")
    cache = Setting("RUSHLIGHT_CACHE", None, str,
                    "Directory of the disk cache, which must be this user's alone (default: ~/.cache/rushlight); 0 "
                    "disables it.")
    cache_mb = (Setting("RUSHLIGHT_CACHE_MB", 1024, count,
                        "Maximum size of the disk cache in megabytes; beyond it the least recently used entries are "
                        "removed."))
    force_weights_only = Setting("TORCH_FORCE_WEIGHTS_ONLY_LOAD", False, yes,
                                 "Whether load() reads weights only, whatever the program says.")
    force_no_weights_only = Setting("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", False, yes,
                                    "Whether load() reads any object where the program does not say.")
    packed_mb = Setting("RUSHLIGHT_PACKED_MB", 1024, whole,
                        "Megabytes that packed copies of weights take at most; looked at when a program is first found "
                        "to read the same weights again.")
    store = Setting("RUSHLIGHT_STORE", True, switch,
                    "Whether the disk cache holds plans (traced, differentiated and assembled programs) in addition to "
                    "machine code.")
    regions = Setting("RUSHLIGHT_REGIONS", True, switch,
                      "Whether programs with a repeated subgraph (layers of a model) are planned by one with few "
                      "repetitions.")
    threads = Setting("RUSHLIGHT_NUM_THREADS", None, count,
                      "Threads that kernels run on (default: OMP_NUM_THREADS, else the physical cores).")
    nodes = Setting("RUSHLIGHT_NODES", "first", one_of("first", "interleave"),
                    "NUMA placement of memory: on the node of the thread that touches a page "
                    "first, or interleaved across all nodes; read once, at import (Linux).")
    launch_graphs = Setting("RUSHLIGHT_GRAPHS", False, switch,
                            "Whether launches of a program are captured once by a GPU's driver, and replayed as one.")
    allocator = Setting("PYTORCH_ALLOC_CONF", "", str,
                        "Choices of the allocator of GPUs, `name:value` with commas between, that gpu.md describes; "
                        "others warn.")
    allocator_cuda = Setting("PYTORCH_CUDA_ALLOC_CONF", "", str, "The same, where PYTORCH_ALLOC_CONF is empty.")
    allocator_hip = Setting("PYTORCH_HIP_ALLOC_CONF", "", str, "The same, where both others are empty.")
    vendor = Setting("RUSHLIGHT_VENDOR", "auto", one_of("auto", "never", "always"),
                     "Whether matmul and attention on GPUs use the vendor's libraries: if these are "
                     "expected, or were measured, to be faster; never; or whenever they support the call.")
    vendor_path = Setting("RUSHLIGHT_VENDOR_PATH", "", str,
                          "Directories that are searched first for libraries of GPU vendors.")
    launch_blocking = Setting("CUDA_LAUNCH_BLOCKING", False, switch,
                              "Whether GPU programs run synchronously, so that errors are raised where they come from.")
    openmp_threads = Setting("OMP_NUM_THREADS", None, foreign_count,
                             "What other libraries take as the number of threads.")
    max_autotune = Setting("RUSHLIGHT_MAX_AUTOTUNE", False, switch,
                           "Whether choices within templates are measured and remembered.")
    bucket_all_reduces = Setting("RUSHLIGHT_BUCKET_ALL_REDUCES", "none", one_of("none", "all"),
                                 "Whether all_reduces of compiled programs that do not wait for each other are one "
                                 "exchange; all ranks must run the same programs then.")
    bucket_all_gathers = Setting("RUSHLIGHT_BUCKET_ALL_GATHERS", "none", one_of("none", "all"),
                                 "The same of all_gathers.")
    bucket_reduce_scatters = Setting("RUSHLIGHT_BUCKET_REDUCE_SCATTERS", "none", one_of("none", "all"),
                                     "The same of reduce_scatters.")
    tune = Setting("RUSHLIGHT_TUNE", False, switch,
                   "Whether choices within templates, of those that give the same results, are measured for 50 ms when "
                   "a class of problems is first planned, and remembered.")
    trace_numpy = Setting("RUSHLIGHT_TRACE_NUMPY", True, switch,
                          "Whether functions of NumPy on arrays are followed into graphs, or run between them.")
    recompile_limit = Setting("RUSHLIGHT_RECOMPILE_LIMIT", 8, count,
                              "How often one piece of code is captured before it runs uncompiled.")
    progress = Setting("RUSHLIGHT_PROGRESS", 2.0, seconds,
                       "Seconds after which a compilation reports its progress on a terminal; 0 for never.")
    check = Setting("RUSHLIGHT_CHECK", "", one_of("accuracy", "minify"),
                    "Whether compiled graphs are compared with eager ones: accuracy raises where they "
                    "differ, minify also writes a small script that shows it.")
    as_torch = Setting("RUSHLIGHT_AS_TORCH", False, switch,
                       "Whether `import torch` means Rushlight in every process of Python that starts; read once, by "
                       "rushlight.pth.")
    verify = Setting("RUSHLIGHT_VERIFY", False, switch,
                     "Whether every stage of a compilation is followed by a check of what it left.")
    debug = Setting("RUSHLIGHT_DEBUG", "", str,
                    "Directory into which every stage of each compilation is written; read once, at import.")
    compile_debug = Setting("TORCH_COMPILE_DEBUG", False, is_one,
                            "Whether the stages of compiled functions are written below torch_compile_debug; read "
                            "once, at import.")
    compile_debug_dir = Setting("TORCH_COMPILE_DEBUG_DIR", "", str,
                                "The directory of torch_compile_debug (default: the working directory); read once, at "
                                "import.")
    flight_buffer = Setting("TORCH_FR_BUFFER_SIZE", 0, whole,
                            "How many exchanges between processes are kept for python -m rushlight.tools.flight; 0 "
                            "for none.", ("TORCH_NCCL_TRACE_BUFFER_SIZE",))
    flight_file = Setting("TORCH_FR_DUMP_TEMP_FILE", "/tmp/rushlight_trace_rank_", str,
                          "Where a process leaves its last exchanges when one fails: this, and its rank.",
                          ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE",))
    own_address = Setting("RUSHLIGHT_ADDRESS", "", str,
                          "By which address other machines reach this one (default: that of the way to MASTER_ADDR).")
    torch_logs = Setting("TORCH_LOGS", "", str,
                         "What is logged, by PyTorch's names with commas: +name for everything, -name for nothing.")
    torch_logs_out = Setting("TORCH_LOGS_OUT", "", str,
                             "File to which logs are appended, besides standard error; read once, at import.")
    torch_logs_format = Setting("TORCH_LOGS_FORMAT", "", str,
                                "Format of logs, in the style of logging.Formatter; short and basic stand for "
                                "logging.BASIC_FORMAT; read once, at import.")
    logs = Setting("RUSHLIGHT_LOGS", "", str, "What is logged, by names of rushlight.logging.LOGS with commas, or all.")

    def __init__(self):
        self.__dict__.update(chosen={}, overrides=Overrides())

    def __setattr__(self, name, value):
        self.check_name(name)
        super().__setattr__(name, value)

    @classmethod
    def check_name(cls, name: str):
        if not isinstance(getattr(cls, name, None), Setting):
            raise AttributeError(f"there is no setting {name!r}; there are {', '.join(cls.names())}")

    @classmethod
    def names(cls):
        return [name for name, value in vars(cls).items() if isinstance(value, Setting)]

    @contextlib.contextmanager
    def set(self, **values):
        """Overrides settings for a block.  Other threads, which may compile under options of their own, see nothing of
        it.  AttributeError for names that there are not."""
        for name in values:
            self.check_name(name)
        before = self.overrides.values
        self.overrides.values = {**before, **values}
        try:
            yield self
        finally:
            self.overrides.values = before

    def __repr__(self):
        rows = [f"{name} = {getattr(self, name)!r}  # {setting.variable}: {setting.__doc__}"
                for name, setting in vars(type(self)).items() if isinstance(setting, Setting)]
        return "\n".join(rows)


settings = Settings()
