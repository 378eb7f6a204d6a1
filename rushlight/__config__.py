"""Build configuration."""


def show() -> str:
    """A description, one fact a line."""
    import llvmlite
    import numpy

    from .backends.cpu import get_cpu_capability
    return (f"Rushlight, in Python\n  - kernels generated with llvmlite {llvmlite.__version__}\n  - NumPy "
            f"{numpy.__version__}\n  - CPU capability usage: {get_cpu_capability()}\n  - no CUDA\n")


def parallel_info() -> str:
    """How many threads kernels run on."""
    from ._src.switches import get_num_threads
    return f"our own pool of threads\n\tget_num_threads() : {get_num_threads()}\n"


def _cxx_flags() -> str:
    """The flags of a C++ compiler: none, since nothing is compiled by one."""
    return ""
