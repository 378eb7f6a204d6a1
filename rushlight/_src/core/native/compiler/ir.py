"""LLVM IR as text: a module, its functions, and a cursor that appends instructions to blocks."""

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


class Module:
    """A unit of LLVM IR: declarations on demand, then definitions in the order they were added."""

    def __init__(self):
        self.declarations = {}
        self.definitions = []

    def declare(self, name, result, arguments, attributes=""):
        """Make an external function callable (once)."""
        self.declarations.setdefault(name, f"declare {result} @{name}({', '.join(arguments)}) {attributes}")

    def define(self, text):
        """Add a finished function or global."""
        self.definitions.append(text)

    def __str__(self):
        return "\n".join([*self.declarations.values(), "", *self.definitions, "", METADATA])


class Code:
    """The body of one function under construction.

    Instructions go to the current block; a value is its text (`%7`, `42`, `null`). Stack slots are gathered in the
    entry block.
    """

    def __init__(self, name, result, arguments, attributes="nounwind", linkage="internal"):
        self.name, self.result, self.arguments = name, result, arguments
        self.attributes, self.linkage = attributes, linkage
        self.slots = []
        self.blocks = []
        self.count = 0
        self.open = False
        self.current = None
        self.start(self.label("body"))

    def fresh(self, hint="v"):
        self.count += 1
        return f"%{hint}.{self.count}"

    def label(self, hint="block"):
        """A name for a block that `start` begins later."""
        return self.fresh(hint)[1:]

    def start(self, label):
        """Continue at the beginning of a new block, falling into it from an unfinished one."""
        if self.open:
            self.jump(label)
        self.current = (label, [])
        self.blocks.append(self.current)
        self.open = True

    def suspend(self):
        """Leave the current block unfinished; `resume` comes back to it."""
        self.open = False
        return self.current

    def resume(self, block):
        """Continue a suspended block."""
        self.current = block
        self.open = True

    def do(self, text):
        """Append an instruction without a result."""
        if not self.open:
            self.start(self.label("dead"))
        self.current[1].append(text)

    def op(self, text, hint="v"):
        """Append an instruction; the name of its result."""
        value = self.fresh(hint)
        self.do(f"{value} = {text}")
        return value

    def slot(self, type, hint="slot"):
        """A stack slot that lives as long as the function."""
        value = self.fresh(hint)
        self.slots.append(f"{value} = alloca {type}")
        return value

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

    def jump(self, label):
        self.do(f"br label %{label}")
        self.open = False

    def branch(self, condition, yes, no, weights=None):
        self.do(f"br i1 {condition}, label %{yes}, label %{no}" + (f", !prof {weights}" if weights else ""))
        self.open = False

    def finish(self, text):
        """End the block with a `ret` or `unreachable`."""
        self.do(text)
        self.open = False

    def __str__(self):
        if self.open:
            self.finish("unreachable")
        lines = [f"define {self.linkage} {self.result} @{self.name}({', '.join(self.arguments)}) {self.attributes} {{",
                 "entry:"]
        lines += [f"  {slot}" for slot in self.slots]
        lines.append(f"  br label %{self.blocks[0][0]}")
        for label, body in self.blocks:
            lines.append(f"{label}:")
            lines += [f"  {line}" for line in body]
        return "\n".join([*lines, "}", ""])
