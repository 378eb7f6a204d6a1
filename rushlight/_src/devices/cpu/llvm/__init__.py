"""The LLVM layer: an IR builder, a linker into this process, CPU features and the thread pool."""
