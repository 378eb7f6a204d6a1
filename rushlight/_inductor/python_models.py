"""Models of packages that run in Python: exported programs for which no shared object can be made."""
from __future__ import annotations

import hashlib
import io

from .._src.compiling import compile as compiled
from .._src.core.native import Tensor
from .._src.core.pytree import tree_leaves, tree_map_only
from .._src.devices.cpu.llvm import pool
from .._src.flat import no_grad
from .._src.packages.archive import BadPackage, Package
from .._src.packages.interface import PYTHON, VERSION
from .._src.packages.loaded import fitted, meta_of
from ..export.files.fields import SerializeError
from ..export.files.programs import load as read_program
from ..export.files.programs import write as write_program
from ..export.graph_signature import InputKind
from ..nn.parameter import Parameter
from ..utils.pytree_text import treespec_dumps

NOT_STATE = (InputKind.USER_INPUT, InputKind.CUSTOM_OBJ, InputKind.TOKEN)


class PythonModel:
    """An exported program as ``archive.write`` takes models: the package holds the program itself, which Python runs.

    Args:
        program: the ExportedProgram.
        name: the model's name in the package.
        reason: why it has no shared object.
        max_autotune: True if the compiler measures choices within templates when the loaded model is compiled.

    Raises SerializeError for a program that no file can hold.
    """

    suffix, weights = "program", None

    def __init__(self, program, name: str, reason: str, max_autotune=False):
        self.program, self.name, self.reason, self.max_autotune = program, name, reason, max_autotune
        held = io.BytesIO()
        write_program(program, held, "archive", {})
        self.content = held.getvalue()

    def files(self, weights_at=0) -> dict:
        return {f"{self.name}.{self.suffix}": self.content}

    def manifest(self) -> dict:
        program = self.program
        leaves, tensors = tree_leaves(program.example_inputs), {**program.constants, **program.state_dict}
        named = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
        inputs = [row_of(name, leaf) for name, leaf in zip(named, leaves, strict=True) if isinstance(leaf, Tensor)]
        constants = [row_of(name, tensors[name]) for name in names_of_state(program)]
        call = {"in_spec": treespec_dumps(program.in_spec), "out_spec": treespec_dumps(program.out_spec),
                "names": list(program.parameter_names[:len(program.example_inputs[0])]),
                "arguments": [None if isinstance(leaf, Tensor) else repr(leaf) for leaf in leaves], "results": []}
        return {"name": self.name, "version": VERSION, "target": PYTHON, "reason": self.reason, "levels": [],
                "instructions": [], "threads": pool.get_num_threads(), "varying": [], "inputs": inputs, "outputs": [],
                "constants": constants, "checks": [], "call": call, "max_autotune": self.max_autotune}


def row_of(name: str, value: Tensor) -> dict:
    """A tensor as manifests have it."""
    return {"name": name, "dtype": value.dtype.name, "shape": list(value.shape), "strides": list(value.stride())}


def names_of_state(program) -> list:
    """The parameters, buffers and constants that a program reads, in the order of its inputs."""
    specs = program.graph_signature.input_specs
    return list(dict.fromkeys(spec.target for spec in specs if spec.kind not in NOT_STATE))


class LoadedPythonModel:
    """A model of a package that Python runs, called as ``Loaded`` is.  Reading it runs no code of the file: it calls
    nothing but operators.  BadPackage for a damaged one."""

    def __init__(self, package: Package, name: str):
        self.manifest = manifest = package.manifests[name]
        try:
            program = read_program(io.BytesIO(package.image(name)))
        except (SerializeError, TypeError) as reason:
            raise BadPackage(f"the model {name!r} is damaged: {reason}") from reason
        self.module, self.constants, self.is_single = program.module(), names_of_state(program), False
        if self.constants != [row["name"] for row in manifest["constants"]]:
            raise BadPackage(f"the manifest of {name!r} is not that of its program")
        self.run = compiled(self.module, options={"max_autotune": manifest.get("max_autotune") is True})

    def __call__(self, *args, **kwargs):
        with no_grad():
            args, kwargs = tree_map_only(Tensor, Tensor.detach, (args, kwargs))
            return self.run_alone(args, kwargs) if self.is_single else self.run(*args, **kwargs)

    def run_alone(self, args, kwargs):
        """A call on one thread."""
        threads = pool.get_num_threads()
        pool.set_num_threads(1)
        try:
            return self.run(*args, **kwargs)
        finally:
            pool.set_num_threads(threads)

    def run_on_one_thread(self):
        """Its kernels run on the calling thread from here on."""
        self.is_single = True

    def get_metadata(self) -> dict:
        """Return the manifest, the metadata strings of the package, and the device under PyTorch's name."""
        return {**self.manifest, "AOTI_DEVICE_KEY": "cpu", **self.manifest.get("metadata", {})}

    def get_constant_fqns(self) -> list:
        """Names of weights and buffers."""
        return list(self.constants)

    def load_constants(self, constants: dict, *, check_full_update: bool = True, user_managed: bool = False):
        """Replace weights by tensors of the same shape and dtype.  ``check_full_update``: ValueError if one is
        missing; ``user_managed``: read them in place, else copy them."""
        unknown, missing = constants.keys() - set(self.constants), set(self.constants) - constants.keys()
        if unknown or missing and check_full_update:
            raise ValueError(f"constants {'that the model does not have' if unknown else 'are missing'}: "
                             f"{', '.join(sorted(unknown or missing))}")
        rows = {row["name"]: row for row in self.manifest["constants"]}
        for name, value in constants.items():
            value = fitted(value.detach(), meta_of(rows[name]), name)
            path, _, last = name.rpartition(".")
            owner = self.module.get_submodule(path)
            value = value if user_managed else value.clone()
            is_parameter = last in owner._parameters
            setattr(owner, last, Parameter(value, requires_grad=False) if is_parameter else value)
