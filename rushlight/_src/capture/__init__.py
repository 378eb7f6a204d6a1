"""Python to Graph: symbolic execution of bytecode, without a hook into the interpreter's frames."""
