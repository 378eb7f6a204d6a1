"""Local variables of a function being compiled: stack slots that LLVM turns into registers, owning their values."""

from dataclasses import dataclass

from .types import ARGS, BOOL, NONE, OBJECT, PERMANENT, STABLE, STORED, Type, Value


@dataclass
class Local:
    """A local variable: its type and stack slot; `owned` when it holds a reference of its own."""

    type: Type
    slot: str
    owned: bool


class Variables:
    """The local variables; `locals` have slots, `values` are parameters that never change, `known` certainly have a
    value."""

    def variable(self, name, type, owned):
        """Make room for a local variable."""
        slot = self.code.slot(STORED.get(type.ir, type.ir), name)
        if type.is_reference:
            self.code.entry.append(f"store ptr null, ptr {slot}")
        self.locals[name] = Local(type, slot, owned)
        return self.locals[name]

    def hidden(self, value):
        """Put a value into a local variable that the source does not see, so that it lives through several
        statements."""
        name = f".{len(self.locals)}"
        self.variable(name, value.type, owned=value.type.is_reference)
        self.assign(name, value)
        return name

    def assign(self, name, value):
        """Store a value in a local variable, taking its reference."""
        if value.type is ARGS and (name not in self.annotated or self.annotated[name] is ARGS):
            raise self.unsupported(self.node, f"keeping Args in {name!r} (annotate it as a tuple to copy them)")
        self.seen.setdefault(name, set()).add((value.type, value.type.is_reference and value.hold == PERMANENT))
        local = self.locals.get(name) or self._declare(name, value)
        if not self._fits(value, local.type):
            self.discard(value)
            return
        value = self.convert(value, local.type, name)
        self.known.add(name)
        if local.owned:
            new = self.take(value)
            old = self.code.load("ptr", local.slot, None)
            self.code.store("ptr", new, local.slot, None)
            self.code.call("void", "@xdecref", f"ptr {old}")
        elif local.type is BOOL:
            self.code.store("i8", self.code.op(f"zext i1 {value.ir} to i8"), local.slot, None)
        else:
            self.code.store(local.type.ir, self.solid(value).ir, local.slot, None)

    def _declare(self, name, value):
        type = self.learned.get(name, (None, None))[0] or (OBJECT if value.type is NONE else value.type)
        permanent = self.learned.get(name, (None, False))[1]
        return self.variable(name, type, owned=type.is_reference and not permanent)

    def _fits(self, value, type):
        """False while a first run still has too narrow an idea of a local; the next run knows better."""
        if self.final or value.type in (type, NONE) or type is OBJECT or value.type is OBJECT:
            return True
        self.doubtful = True
        return False

    def discard(self, value):
        if value.type.is_reference:
            self.release(value)

    def read(self, node):
        """The value of a local variable or parameter."""
        name = node.id
        if name not in self.known:
            if self.final:
                raise self.unsupported(node, f"reading {name!r} where it may have no value")
            self.doubtful = True
        if name in self.values:
            return Value(**vars(self.values[name]))
        local = self.locals[name]
        if local.type is BOOL:
            return Value(BOOL, self.code.op(f"icmp ne i8 {self.code.load('i8', local.slot, None)}, 0"))
        ir = self.code.load(local.type.ir, local.slot, None)
        return Value(local.type, ir, STABLE if local.owned else PERMANENT)

    def drop(self, name):
        """Release a hidden variable before the function ends."""
        self._drop_slot(self.locals[name].slot)

    def _drop_slot(self, slot):
        old = self.code.load("ptr", slot, None)
        self.code.store("ptr", "null", slot, None)
        self.code.call("void", "@xdecref", f"ptr {old}")
