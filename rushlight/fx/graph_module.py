"""GraphModule: a module whose ``forward`` is written from a graph."""
from __future__ import annotations

import copy
import itertools
import linecache
import os

from ..nn import Module, Parameter
from .._src.core.native import Tensor
from .._src.core.options import accept_only
from .graph import Graph, PythonCode

_numbers = itertools.count()
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"  # of ``meta``: attributes that copies have, too


def compiled(code: PythonCode):
    """The function that a graph's text defines; its lines are found by tracebacks and debuggers."""
    name = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[name] = (len(code.src), None, code.src.splitlines(keepends=True), name)
    space = dict(code.globals)
    exec(compile(code.src, name, "exec"), space)
    return space["forward"]


def copy_path(source, target, path: str):
    """Gives ``target`` what ``source`` has under a dotted path, with empty modules on the way."""
    *owners, field = path.split(".")
    for part in owners:
        following = getattr(source, part)
        if following is getattr(target, part, None):
            return
        if not hasattr(target, part):
            setattr(target, part, Module())
        source, target = following, getattr(target, part)
    value = getattr(source, field)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(field, value)
    else:
        setattr(target, field, value)


def assign(value, target, path: str):
    """Puts a value under a dotted path."""
    *owners, field = path.split(".")
    for part in owners:
        if not hasattr(target, part):
            setattr(target, part, Module())
        target = getattr(target, part)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(field, value)
    else:
        setattr(target, field, value)


class GraphModule(Module):
    """A module generated from a Graph: ``graph`` is its program, ``code`` the text of its ``forward``.

    ``root`` gives the parameters and submodules that the graph names: a Module, or a dict from paths to values.
    RuntimeError if the graph names what ``root`` does not have.  After changing ``graph``, call ``recompile()``.
    """

    def __new__(cls, *args, **kwargs):
        for base in cls.__mro__:  # every instance has a class of its own, which holds its forward
            name = base.__qualname__.rpartition(".")[2]
            if name != "GraphModuleImpl":
                break
        return super().__new__(type("GraphModuleImpl", (base,), {"__module__": cls.__module__}))

    def __init__(self, root, graph: Graph, class_name: str = "GraphModule"):
        super().__init__()
        type(self).__name__ = class_name  # its __qualname__ stays, by which tools know such classes
        self.meta = {}
        if isinstance(root, Module):
            self.training = root.training
            self.meta.update(getattr(root, "meta", None) if isinstance(getattr(root, "meta", None), dict) else {})
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    copy_path(root, self, node.target)
        else:
            self._from_dict(root, graph)
        self.graph = graph

    def _from_dict(self, root, graph):
        wanted = sorted({n.target for n in graph.nodes if n.op in ("get_attr", "call_module")},
                        key=lambda path: path.count("."))
        for path in wanted:
            if path not in root:
                raise RuntimeError(
                    f"the graph names {path!r}, which root does not have: it has {', '.join(root) or 'nothing'}")
            assign(root[path], self, path)

    # --- the program --------------------------------------------------------------------------------------------------
    @property
    def graph(self) -> Graph:
        """The program; assigning another one, which modules may share, recompiles."""
        return self.__dict__["_graph"]

    @graph.setter
    def graph(self, graph: Graph):
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        graph.owning_module = self
        self.__dict__["_graph"] = graph
        self.recompile()

    def recompile(self) -> PythonCode:
        """Writes ``forward`` from the graph again, after the graph was changed."""
        codegen = self._graph._codegen
        if hasattr(codegen, "in_spec"):  # arguments and results are nested
            self.__dict__["_in_spec"], self.__dict__["_out_spec"] = codegen.in_spec, codegen.out_spec
        code = self._graph.python_code("self")
        self.__dict__["_code"] = code.src
        type(self).forward = compiled(code)
        return code

    @property
    def code(self) -> str:
        """The text of ``forward``."""
        return self._code

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False, *,
                       fast_sympy_print=False, expanded_def=False, additional_meta=None) -> str:
        """Prints the program with what is known of its values, those of graph modules inside it too; the text.
        Options are those of ``Graph.python_code``."""
        accept_only("print_readable", "read node.meta", additional_meta=(additional_meta, None, []))
        text = self.readable(type(self).__name__, expanded_def, {
            "include_stride": include_stride, "include_device": include_device, "colored": colored})
        if print_output:
            print(text)
        return text

    def readable(self, name, expanded_def, shown) -> str:
        """Return the text of ``print_readable``, with graph modules inside under the names of their attributes."""
        body = self._graph.python_code("self", verbose=True, expanded_def=expanded_def, **shown).src.strip("\n ")
        text = f"class {name}(torch.nn.Module):\n" + "\n".join("    " + line if line else ""
                                                              for line in body.splitlines())
        inner = [module.readable(inside, False, shown) for inside, module in self.named_children()
                 if isinstance(module, GraphModule)]
        return "\n\n".join([text, *("\n".join("    " + line for line in t.splitlines()) for t in inner)]) + "\n"

    def __str__(self):
        more = "# To see more debug info, please use `graph_module.print_readable()`"
        return f"{super().__str__()}\n{self._code}\n{more}"

    # --- members ------------------------------------------------------------------------------------------------------
    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module under a dotted path; False if something that is no module is in the way."""
        *owners, field = target.split(".")
        place = self
        for part in owners:
            if not hasattr(place, part):
                setattr(place, part, Module())
            place = getattr(place, part)
            if not isinstance(place, Module):
                return False
        place.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Removes the module under a dotted path; False if there is none."""
        owner, _, field = target.rpartition(".")
        try:
            place = self.get_submodule(owner)
        except AttributeError:
            return False
        if not isinstance(getattr(place, field, None), Module):
            return False
        delattr(place, field)
        return True

    def delete_all_unused_submodules(self):
        """Removes modules that the graph neither calls nor reads from."""
        used, names = set(), [name for name, _ in self.named_modules(remove_duplicate=False) if name]
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[:k]) for k in range(1, len(parts) + 1))
                if node.op == "call_module":
                    used.update(name for name in names if name.startswith(node.target + "."))
        for name in (name for name in names if name not in used):
            self.delete_submodule(name)

    def to_folder(self, folder, module_name: str = "FxModule"):
        """Write the program as a package in that directory: ``module.py`` with its source, ``state.pt`` with
        parameters and submodules."""
        from ..serialization import save
        os.makedirs(folder, exist_ok=True)
        save(self, os.path.join(folder, "state.pt"))
        with open(os.path.join(folder, "module.py"), "w") as file:
            file.write(f'"""The program of {module_name}; parameters and submodules lie in state.pt."""\nimport '
                       'os\n\nimport rushlight as torch\n\n'
                       f"TEXT = '''{self._code}'''\n\n\ndef {module_name}():\n"
                       '    """The module, ready to call."""\n'
                       "    return torch.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'state.pt'), "
                       "weights_only=False)\n")
        with open(os.path.join(folder, "__init__.py"), "w") as file:
            file.write(f"from .module import {module_name}\n\n__all__ = [{module_name!r}]\n")

    # --- copies -------------------------------------------------------------------------------------------------------
    def __deepcopy__(self, memo):
        made = type(self).__mro__[1].__new__(type(self).__mro__[1])
        memo[id(self)] = made
        Module.__init__(made)
        type(made).__name__ = type(made).__qualname__ = type(self).__name__
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        made.__dict__.update(copy.deepcopy(state, memo))
        made.graph = copy.deepcopy(self._graph, memo)
        return made

    def __copy__(self):
        made = GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)
        made.meta = dict(self.meta)
        for name, value in self.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(made, name, value)
        return made

    def __reduce__(self):
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        return restored, (type(self).__mro__[1], type(self).__name__, state, self._graph)


def restored(base, name, state, graph):
    """A pickled GraphModule."""
    made = base.__new__(base)
    Module.__init__(made)
    type(made).__name__ = type(made).__qualname__ = name
    made.__dict__.update(state)
    made.graph = graph
    return made


_copy_attr = copy_path  # as model code knows it
