"""LLVM IR of the hot path: modules with its metadata, and functions whose memory accesses have alias information."""
from ...llvm import body

UNLIKELY = "!1"
METADATA = """\
!1 = !{!"branch_weights", i32 1, i32 2000}
!2 = !{}
!3 = !{!"memory"}
!4 = !{!"counts", !3}
!5 = !{!4, !4, i64 0}
!6 = !{!"values", !3}
!7 = !{!6, !6, i64 0}
"""
INVARIANT = "!invariant.load !2"
COUNTS = "!tbaa !5"  # reference counts share no memory with anything else that is read or written
VALUES = "!tbaa !7"


class Module(body.Module):
    """A unit of LLVM IR with the metadata above."""

    def __str__(self):
        return "\n".join([*self.declarations.values(), "", *self.definitions, "", METADATA])


class Code(body.Body):
    """The body of one function under construction."""

    def __init__(self, name, result, arguments, attributes="nounwind"):
        super().__init__(name, result, arguments, attributes, "internal")

    def load(self, type, address, tag=VALUES):
        return self.op(f"load {type}, ptr {address}, {tag}" if tag else f"load {type}, ptr {address}")

    def store(self, type, value, address, tag=VALUES):
        self.do(f"store {type} {value}, ptr {address}, {tag}" if tag else f"store {type} {value}, ptr {address}")

    def offset(self, base, nbytes):
        return self.op(f"getelementptr i8, ptr {base}, i64 {nbytes}")

    def item(self, base, index, type="ptr"):
        return self.op(f"getelementptr {type}, ptr {base}, i64 {index}")

    def call(self, result, function, *arguments):
        """Call with arguments written as `type value`; the result's name, or None for void."""
        text = f"call {result} {function}({', '.join(arguments)})"
        return self.do(text) if result == "void" else self.op(text)

    def select(self, condition, type, yes, no):
        return self.op(f"select i1 {condition}, {type} {yes}, {type} {no}")

    def __str__(self):
        return self.text() + "\n"
