"""System information from commands: the parts of ``utils.collect_env``."""
from __future__ import annotations

import locale
import os
import platform
import re
import subprocess
import sys
from collections import namedtuple

NVIDIA_PATTERNS = ["cuda-cudart", "cuda-cupti", "cuda-libraries", "cuda-opencl", "cuda-nvrtc", "cuda-runtime", "cublas",
                   "cudnn", "cufft", "curand", "cusolver", "cusparse", "nccl", "nvjitlink", "nvtx"]
ONEAPI_PATTERNS = ["dpcpp-cpp-rt", "intel-cmplr-lib-rt", "intel-cmplr-lib-ur", "intel-cmplr-lic-rt",
                   "intel-opencl-rt", "intel-sycl-rt", "mkl", "onemkl-sycl-blas", "onemkl-sycl-dft",
                   "onemkl-sycl-lapack", "onemkl-sycl-rng", "onemkl-sycl-sparse", "intel-openmp", "tbb",
                   "impi-rt", "impi-devel", "oneccl", "oneccl-devel", "intel-pti", "umf", "tcmlib"]
COMMON = ("torch", "numpy", "triton", "optree", "rushlight", "llvmlite")
FIELDS = ("torch_version", "is_debug_build", "cuda_compiled_version", "gcc_version", "clang_version", "cmake_version",
          "os", "libc_version", "python_version", "python_platform", "is_cuda_available", "cuda_runtime_version",
          "cuda_module_loading", "nvidia_driver_version", "nvidia_gpu_models", "cudnn_version", "is_xpu_available",
          "pip_version", "pip_packages", "conda_packages", "hip_compiled_version", "hip_runtime_version",
          "miopen_runtime_version", "caching_allocator_config", "is_xnnpack_available", "cpu_info")
SystemEnv = namedtuple("SystemEnv", FIELDS)
env_info_fmt = "\n".join(f"{name.replace('_', ' ')}: {{{name}}}" for name in FIELDS)


def run(command):
    """(return code, output, errors) of a command, a line for the shell or a list."""
    done = subprocess.run(command, shell=isinstance(command, str), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    kind = "oem" if get_platform() == "win32" else locale.getpreferredencoding()
    return done.returncode, done.stdout.decode(kind).strip(), done.stderr.decode(kind).strip()


def run_and_read_all(run_lambda, command):
    """Return the output of a command; None if it fails."""
    code, out, _ = run_lambda(command)
    return None if code else out


def run_and_parse_first_match(run_lambda, command, regex):
    """The first group of a pattern in what a command prints, or None."""
    found = re.search(regex, run_and_read_all(run_lambda, command) or "")
    return None if found is None else found.group(1)


def run_and_return_first_line(run_lambda, command):
    """The first line that a command prints; None where it fails."""
    out = run_and_read_all(run_lambda, command)
    return None if out is None else out.split("\n")[0]


def get_gcc_version(run_lambda):
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda):
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda):
    return run_and_parse_first_match(run_lambda, "cmake --version", r"cmake (.*)")


def get_nvidia_smi():
    """Return the command that lists NVIDIA's devices."""
    if get_platform() != "win32":
        return "nvidia-smi"
    root = os.environ.get("SYSTEMROOT", "C:\\Windows")
    tried = (os.path.join(root, "System32", "nvidia-smi"), "nvidia-smi")
    return f'"{next((path for path in tried if os.path.exists(path)), tried[-1])}"'


def get_nvidia_driver_version(run_lambda):
    return run_and_parse_first_match(run_lambda, get_nvidia_smi(), r"Driver Version: (.*?) ")


def get_gpu_info(run_lambda):
    """The names of NVIDIA's devices, a line each; None where there are none."""
    code, out, _ = run_lambda(f"{get_nvidia_smi()} -L")
    return None if code else re.sub(r" \(UUID: .+?\)", "", out)


def get_running_cuda_version(run_lambda):
    return run_and_parse_first_match(run_lambda, "nvcc --version", r"release .+ V(.*)")


def get_cudnn_version(run_lambda):
    """The files of cuDNN that the loader knows, or None."""
    out = run_and_read_all(run_lambda, 'ldconfig -p | grep libcudnn | rev | cut -d" " -f1 | rev')
    return out or None


def get_cuda_module_loading_config():
    return "N/A"


def get_intel_gpu_onboard(run_lambda):
    """The devices of Intel that ``lspci`` lists."""
    out = run_and_read_all(run_lambda, "lspci | grep -E 'VGA|Display' | grep -i intel")
    return out or "N/A"


def get_intel_gpu_detected(run_lambda):
    return "N/A"


def get_intel_gpu_driver_version(run_lambda):
    lines = [f"* {name}:\t{version}" for name in ("intel-opencl-icd", "libze1", "level-zero")
             if (version := get_linux_pkg_version(run_lambda, name)) != "N/A"]
    return "\n".join(lines) or "N/A"


def get_linux_pkg_version(run_lambda, pkg_name):
    """The version of a package of Debian's or Red Hat's kind, or "N/A"."""
    for command in (f"dpkg-query -W -f='${{Version}}' {pkg_name}", f"rpm -q --qf '%{{VERSION}}' {pkg_name}"):
        code, out, _ = run_lambda(command)
        if not code and out:
            return out
    return "N/A"


def get_cpu_info(run_lambda):
    """Return the system's description of the CPU."""
    command = {"linux": "lscpu", "darwin": "sysctl -n machdep.cpu.brand_string",
               "win32": 'powershell.exe "gwmi -Class Win32_Processor | Select-Object -Property Name | ConvertTo-Json"'}
    code, out, errors = run_lambda(command.get(get_platform(), "lscpu"))
    return errors if code else out


def get_platform():
    """"linux", "win32", "cygwin" or "darwin"."""
    return next((name for name in ("linux", "win32", "cygwin", "darwin") if sys.platform.startswith(name)),
                sys.platform)


def get_mac_version(run_lambda):
    return run_and_parse_first_match(run_lambda, "sw_vers -productVersion", r"(.*)")


def get_windows_version(run_lambda):
    return run_and_read_all(run_lambda, 'powershell.exe "gwmi -Class Win32_OperatingSystem | Select-Object -Property '
                                        'Caption,OSArchitecture,Version | ConvertTo-Json"')


def get_lsb_version(run_lambda):
    return run_and_parse_first_match(run_lambda, "lsb_release -a", r"Description:\t(.*)")


def check_release_file(run_lambda):
    return run_and_parse_first_match(run_lambda, "cat /etc/*-release", r'PRETTY_NAME="(.*)"')


def get_os(run_lambda):
    """The name of the operating system."""
    kind = get_platform()
    if kind in ("win32", "cygwin"):
        return get_windows_version(run_lambda)
    if kind == "darwin":
        version = get_mac_version(run_lambda)
        return None if version is None else f"macOS {version} ({platform.machine()})"
    found = check_release_file(run_lambda) or get_lsb_version(run_lambda)
    return f"{found or kind} ({platform.machine()})"


def get_python_platform():
    return platform.platform()


def get_libc_version():
    return "-".join(platform.libc_ver()) if get_platform() == "linux" else "N/A"


def matching(out, patterns):
    return None if out is None else "\n".join(line for line in out.splitlines() if any(p in line for p in patterns))


def get_pip_packages(run_lambda, patterns=None):
    """("pip3" or "pip", installed packages of these names as ``pip list`` has them)."""
    patterns = (*COMMON, "mypy", "flake8", "onnx", *NVIDIA_PATTERNS) if patterns is None else patterns
    out = run_and_read_all(run_lambda, [sys.executable, "-mpip", "list", "--format=freeze"])
    return "pip3" if sys.version_info.major == 3 else "pip", matching(out, patterns)


def get_conda_packages(run_lambda, patterns=None):
    """Packages of these names that conda has installed; None where there is no conda."""
    patterns = (*COMMON, "cudatoolkit", "soumith", "mkl", "magma") if patterns is None else patterns
    out = run_and_read_all(run_lambda, [os.environ.get("CONDA_EXE", "conda"), "list"]) if os.environ.get(
        "CONDA_EXE") else None
    return None if out is None else matching("\n".join(x for x in out.splitlines() if not x.startswith("#")), patterns)


def get_cachingallocator_config():
    return {name: os.environ[name] for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF") if name in os.environ}


def is_xnnpack_available():
    """Whether XNNPACK computes: never here."""
    return False


def pretty_str(envinfo):
    """A ``SystemEnv`` as text, a line each field; what is not known is "N/A" or "Could not collect"."""
    values = {name: "Could not collect" if value is None else value for name, value in envinfo._asdict().items()}
    return env_info_fmt.format(**{n: ("Yes" if v else "No") if isinstance(v, bool) else v for n, v in values.items()})
