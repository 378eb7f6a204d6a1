"""LLVM IR as text: a module, and the body of a function, block by block."""


class Module:
    """A unit of IR: declarations, each once, and definitions in the order they were added."""

    def __init__(self):
        self.declarations, self.definitions = {}, []

    def declare(self, name, result, types, attributes=""):
        """Makes an external function callable (once)."""
        text = f"declare {result} @{name}({', '.join(map(str, types))}) {attributes}"
        self.declarations.setdefault(name, text.rstrip())

    def define(self, text):
        """Adds a finished function or global."""
        self.definitions.append(text)


class Body:
    """A function under construction.

    Instructions go to the current block; a value is a string (``%v.7``, ``42``, ``null``). One-time instructions, such
    as stack allocations, are collected in the entry block.
    """

    def __init__(self, name, result, parameters, attributes="nounwind", linkage=""):
        self.name, self.result, self.written = name, result, parameters  # as ``type %name``
        self.attributes, self.linkage = attributes, linkage
        self.entry, self.blocks = [], []  # lines; (label, lines) of each block
        self.count, self.open = 0, False
        self.current = None
        self.start(self.label("body"))

    def fresh(self, hint="v"):
        """A name for a value."""
        self.count += 1
        return f"%{hint}.{self.count}"

    def label(self, hint="block"):
        """A name for a block that ``start`` begins later."""
        return self.fresh(hint)[1:]

    def start(self, label):
        """Continues at the beginning of a new block, falling into it from an unfinished one."""
        if self.open:
            self.jump(label)
        self.current = (label, [])
        self.blocks.append(self.current)
        self.open = True

    def suspend(self):
        """Leaves the current block unfinished; ``resume`` comes back to it."""
        self.open = False
        return self.current

    def resume(self, block):
        """Continues a suspended block."""
        self.current, self.open = block, True

    def do(self, text):
        """Appends an instruction without a result."""
        if not self.open:
            self.start(self.label("dead"))
        self.current[1].append(text)

    def op(self, text, hint="v"):
        """Appends an instruction; the name of its result."""
        if not self.open:
            self.start(self.label("dead"))
        self.count += 1
        value = f"%{hint}.{self.count}"  # as ``fresh``, which is not called here: most lines are written so
        self.current[1].append(f"{value} = {text}")
        return value

    def slot(self, type, hint="slot"):
        """Stack memory that lives as long as the function."""
        value = self.fresh(hint)
        self.entry.append(f"{value} = alloca {type}")
        return value

    def finish(self, text):
        """Ends the block: ``ret``, ``unreachable``, a jump."""
        self.do(text)
        self.open = False

    def jump(self, label):
        self.finish(f"br label %{label}")

    def fork(self, condition, yes, no, weights=None):
        """Jump to one of two blocks, by an ``i1``; ``weights``: the branch weights."""
        self.finish(f"br i1 {condition}, label %{yes}, label %{no}" + (f", !prof {weights}" if weights else ""))

    def text(self):
        """The function as IR."""
        if self.open:
            self.finish("unreachable")
        head = f"define {self.linkage} {self.result} @{self.name}({', '.join(self.written)}) {self.attributes} {{"
        lines = [head, "entry:", *(f"  {line}" for line in self.entry), f"  br label %{self.blocks[0][0]}"]
        for label, body in self.blocks:
            lines.append("\n  ".join([f"{label}:", *body]))
        return "\n".join([*lines, "}"])
