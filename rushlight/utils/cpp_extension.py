"""Extensions in C++: not here, since the framework has no C++ of its own."""
from .._src.compat.absent import absent

CUDA_HOME = ROCM_HOME = None
globals().update(absent("torch.utils.cpp_extension",
                        "the framework has no C++ interface; write an operator with torch.library",
                        "load load_inline CppExtension CUDAExtension "
                        "BuildExtension include_paths library_paths"))


def is_ninja_available() -> bool:
    """Whether the build tool is used: never."""
    return False


def verify_ninja_availability():
    """RuntimeError, since the build tool is not used."""
    raise RuntimeError("Ninja is not used: the framework has no C++ interface to build extensions against")
