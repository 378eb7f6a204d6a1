"""Data for bug reports: ``python -m rushlight.utils.collect_env``."""
from __future__ import annotations

import importlib.metadata
import os
import platform
import sys

from .._src.core.platform import here
from .collecting import (  # noqa: F401 - found here
    NVIDIA_PATTERNS, ONEAPI_PATTERNS, SystemEnv, check_release_file, env_info_fmt, get_cachingallocator_config,
    get_clang_version, get_cmake_version, get_conda_packages, get_cpu_info, get_cuda_module_loading_config,
    get_cudnn_version, get_gcc_version, get_gpu_info, get_intel_gpu_detected, get_intel_gpu_driver_version,
    get_intel_gpu_onboard, get_libc_version, get_linux_pkg_version, get_lsb_version, get_mac_version,
    get_nvidia_driver_version, get_nvidia_smi, get_os, get_pip_packages, get_platform, get_python_platform,
    get_running_cuda_version, get_windows_version, is_xnnpack_available, pretty_str, run, run_and_parse_first_match,
    run_and_read_all, run_and_return_first_line)

PACKAGES = ("numpy", "llvmlite", "scipy", "safetensors", "transformers", "timm")


def get_env_info() -> dict:
    """Versions of the framework, Python, libraries and the machine; settings that were changed."""
    import rushlight
    from .._src.devices.cpu.llvm.features import host
    from .._src.core.settings import Setting, settings
    found = {"Rushlight version": rushlight.__version__, "OS": platform.platform(),
             "Python version": sys.version.replace("\n", " "),
             "CPU": processor(), "Logical processors": str(os.cpu_count()), "Threads": str(rushlight.get_num_threads()),
             "Instructions": str(host())}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    rows = [(name, row) for name, row in vars(type(settings)).items() if isinstance(row, Setting)]
    found.update((row.variable, repr(getattr(settings, name))) for name, row in rows if getattr(settings, name)
                 != row.default)
    return found


def processor() -> str:
    """Return the name of the real CPU; "Instructions" lists the instruction sets that `RUSHLIGHT_CPU` leaves."""
    named = [line.partition(":")[2].strip() for line in here.processor().splitlines() if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def get_pretty_env_info() -> str:
    """The same as text, a line each."""
    return "\n".join(f"{name}: {value}" for name, value in get_env_info().items())


def main():
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
