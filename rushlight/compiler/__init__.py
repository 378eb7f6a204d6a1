"""Graph to program: lowering, fusion and native code."""
