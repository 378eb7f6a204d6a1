"""The declarations of the compiled modules: native classes with their layout, functions with their signatures, and the
objects they mention."""

import ast
import builtins
import inspect
import types as pytypes

from .. import language
from . import layout
from .types import ARGS, BUILTINS, NONE, OBJECT, Type, Unsupported

FIELD_SIZE = {"i64": 8, "double": 8, "ptr": 8, "i1": 1}


class Parameter:
    def __init__(self, name, type, default):
        self.name, self.type, self.default = name, type, default


class FunctionDeclaration:
    """A native function or method: signature, source, and the symbol of its compiled form."""

    def __init__(self, program, module, node, plain, owner=None):
        self.module, self.node, self.plain, self.owner = module, node, plain, owner
        self.name = node.name
        qualified = f"{owner.name}.{node.name}" if owner else node.name
        self.symbol = f"{module.__name__.rpartition('.')[2]}.{qualified}"
        self.inline = getattr(plain, "__inline__", False)
        self.vectorcall = getattr(plain, "__vectorcall__", False)
        self.is_property = isinstance(plain, property)
        self.doc = ast.get_docstring(node) or ""
        self._signature(program, node.args)
        self.result = program.annotation(module, node.returns) if node.returns else OBJECT
        if node.returns is None and not any(isinstance(inner, ast.Return) and inner.value for inner in ast.walk(node)):
            self.result = NONE

    def _signature(self, program, arguments):
        if arguments.kwonlyargs or arguments.kwarg or arguments.posonlyargs:
            raise program.unsupported(self.module, self.node, "keyword-only, positional-only and ** parameters")
        defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
        self.parameters = [
            Parameter(argument.arg, program.annotation(self.module, argument.annotation), default)
            for argument, default in zip(arguments.args, defaults)
        ]
        if self.owner:
            self.parameters[0].type = self.owner.type
        self.star = arguments.vararg is not None
        if self.star:
            self.parameters.append(Parameter(arguments.vararg.arg, ARGS, None))

    @property
    def required(self):
        """How many leading parameters (self and *args apart) have no default."""
        return sum(parameter.default is None for parameter in self.visible)

    @property
    def visible(self):
        """The parameters a Python caller passes one by one."""
        return self.parameters[1 if self.owner else 0 : -1 if self.star else None]


class Field:
    def __init__(self, name, type, offset):
        self.name, self.type, self.offset = name, type, offset


class ClassDeclaration:
    """A native class: its fields and their offsets, its methods, and the traits it was declared with."""

    def __init__(self, module, node, plain):
        self.module, self.node, self.plain, self.traits = module, node, plain, plain.__native__
        self.name = node.name
        self.symbol = f"{module.__name__.rpartition('.')[2]}.{node.name}"
        self.type = Type(node.name, "ptr", cls=self)
        self.fields, self.methods = {}, {}
        self.call = None
        self.doc = ast.get_docstring(node) or ""

    def declare(self, program):
        """Read the body of the class, now that every class is known."""
        if self.node.bases:
            raise program.unsupported(self.module, self.node, "bases of a native class")
        for statement in self.node.body:
            if isinstance(statement, ast.AnnAssign) and statement.value is None:
                self.fields[statement.target.id] = program.annotation(self.module, statement.annotation)
            elif isinstance(statement, ast.FunctionDef):
                self._method(program, statement)
            elif not isinstance(statement, ast.Pass) and not _is_text(statement):
                raise program.unsupported(self.module, statement,
                                          f"{type(statement).__name__} in the body of a native class")
        self._lay_out()

    def _method(self, program, node):
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Name) or decorator.id not in ("property", "vectorcall", "inline"):
                raise program.unsupported(self.module, node,
                                          f"the decorator {ast.unparse(decorator)} of a native method")
        plain = inspect.getattr_static(self.plain, node.name)
        method = FunctionDeclaration(program, self.module, node, plain, self)
        self.methods[node.name] = method
        if method.vectorcall:
            self.call = method

    def _lay_out(self):
        offset = layout.HEADER
        fields = sorted(self.fields.items(), key=lambda item: -FIELD_SIZE[item[1].ir])
        for name, kind in fields:
            self.fields[name] = Field(name, kind, offset)
            offset += FIELD_SIZE[kind.ir]
        offset = -(-offset // 8) * 8
        self.end_of_fields = offset
        self.extras = {}
        wanted = (("weaklist", self.traits.weakref), ("dict", self.traits.attributes),
                  ("vectorcall", self.call is not None))
        for name, present in wanted:
            if present:
                self.extras[name] = offset
                offset += 8
        self.size = offset

    @property
    def references(self):
        return [field for field in self.fields.values() if field.type.is_reference]

    @property
    def checked(self):
        """The reference fields that take only one type, so that assigning them from Python needs code."""
        return [field for field in self.references if field.type is not OBJECT]

    @property
    def collected(self):
        """True if the garbage collector must track the instances."""
        return (bool(self.references) or "dict" in self.extras) and not self.traits.acyclic

    @property
    def finalizer(self):
        return self.methods.get("finalize")


class Constants:
    """The Python objects that compiled code mentions, each a slot of one table filled when the code is linked.

    An object is described by how to find it again in another process: ("builtin", name), ("literal", text) or
    ("global", module, path).
    """

    def __init__(self):
        self.slots = {}

    def slot(self, *description):
        return self.slots.setdefault(description, len(self.slots))

    def address(self, *description):
        return f"getelementptr (i8, ptr @objects, i64 {8 * self.slot(*description)})"


class NativeProgram:
    """All that is compiled together: modules, their native classes and functions, and the constants they share."""

    def __init__(self, modules):
        self.modules = modules
        self.constants = Constants()
        self.assumptions = {}  # ("global", module, path) -> the number, text or flag that the code was compiled with
        self.classes, self.functions = {}, {}  # by identity of their plain form
        # where each PerThread object is found first, which numbers them: one that modules share is one state
        self.per_thread = {description: value for description, value in {
            id(value): (("global", module.__name__, name), value)
            for module in reversed(modules) for name, value in reversed(vars(module).items())
            if isinstance(value, language.PerThread)}.values()}
        trees = [(module, ast.parse(inspect.getsource(module))) for module in modules]
        for module, tree in trees:
            for node, plain in _marked(module, tree, ast.ClassDef):
                self.classes[id(plain)] = ClassDeclaration(module, node, plain)
        self.class_names = {declared.name: declared for declared in self.classes.values()}
        for declared in self.classes.values():
            declared.declare(self)
        for module, tree in trees:
            for node, plain in _marked(module, tree, ast.FunctionDef):
                self.functions[id(plain)] = FunctionDeclaration(self, module, node, plain)

    def everything(self):
        """Every function and method to compile."""
        yield from self.functions.values()
        for declared in self.classes.values():
            yield from declared.methods.values()

    def unsupported(self, module, node, what):
        error = Unsupported(f"{what} is not in the typed subset")
        error.filename, error.lineno = inspect.getsourcefile(module), node.lineno
        error.text = inspect.getsource(module).splitlines()[node.lineno - 1]
        return error

    def annotation(self, module, node):
        """The static type that an annotation names; anything that is not a native or built-in class is `object`."""
        if node is None:
            return OBJECT
        if isinstance(node, ast.Constant):
            if node.value is None:
                return NONE
            return self.annotation(module, ast.parse(node.value, mode="eval").body)
        if isinstance(node, ast.Subscript):
            return self.annotation(module, node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and node.right.value is None:
            return self.annotation(module, node.left)
        found = self.find(module, node)
        if found is None and isinstance(node, ast.Name) and node.id in self.class_names:
            return self.class_names[node.id].type
        return self.static_type(found[0]) if found else OBJECT

    def static_type(self, kind):
        """The static type of instances of a class."""
        if kind is language.Args:
            return ARGS
        if id(kind) in self.classes:
            return self.classes[id(kind)].type
        return BUILTINS.get(kind, OBJECT) if isinstance(kind, type) else OBJECT

    def find(self, module, node):
        """The object that a global name, or an attribute of a global module, stands for, with its description; None if
        there is none."""
        if isinstance(node, ast.Name):
            if node.id in vars(module):
                return vars(module)[node.id], ("global", module.__name__, node.id)
            if hasattr(builtins, node.id):
                return getattr(builtins, node.id), ("builtin", node.id)
            for other in self.modules:
                if node.id in vars(other) and id(vars(other)[node.id]) in (self.functions | self.classes):
                    return vars(other)[node.id], ("global", other.__name__, node.id)
        elif isinstance(node, ast.Attribute):
            found = self.find(module, node.value)
            if found and isinstance(found[0], pytypes.ModuleType) and hasattr(found[0], node.attr):
                return getattr(found[0], node.attr), (*found[1], node.attr)
        return None


def _marked(module, tree, kind):
    """The top-level definitions of a module that are marked native, with their plain objects."""
    for node in tree.body:
        plain = vars(module).get(node.name) if isinstance(node, kind) else None
        if plain is not None and "__native__" in vars(plain):
            yield node, plain


def _is_text(statement):
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
