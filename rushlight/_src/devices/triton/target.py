"""GPUs as the compiler's target: kernels in Triton."""

from __future__ import annotations

from ...compiler.kernel import Kernel
from ..shared.target import TextTarget
from .claims import claimed
from .step import Module, TritonKernel, modules
from .templates.attention import Attentions
from .templates.products import Templates
from .vendor.attended import declined
from .vendor.blas import Matrix, Product
from .vendor.dnn import Asked

# by dtype: what programs may do with the same memory at the same time
UPDATES = {"float32": ("add",), "float64": ("add",), "float16": ("add",), "bfloat16": ("add",),
           "int32": ("add", "max", "min"), "int64": ("add", "max", "min")}


class Blocks(TextTarget):
    """Programs that have a block of numbers at a time.  ``kind``: the type of device; ``architecture``: what Triton
    compiles for, as text; ``libraries``: of the vendor, None without."""

    language, modules, module = "triton", modules, Module

    def __init__(self, kind="cuda", architecture="", libraries=None):
        self.architecture, self.attentions = architecture, Attentions(kind, architecture, libraries)
        self.libraries, self.products = libraries, Templates(kind, architecture, libraries)
        super().__init__(kind, claimed(self.products, self.attentions))

    def step(self, kernel: Kernel, scalars: dict):
        return TritonKernel(kernel, scalars)

    def updates(self, store):
        return not store.combine or store.combine in UPDATES.get(store.buffer.dtype.name, ())

    def declines_attention(self, query, value):
        return self.attentions.refusal(query.dtype.name, query.shape[-1], value.shape[-1])

    def declines_vendor_attention(self, query, value):
        if self.attentions.library.dnn() is None:
            return "cuDNN is not there"
        return declined(self.architecture, query.dtype.name, query.shape[-1], value.shape[-1])

    def reference(self, kernel: int):
        made = self.modules.made[kernel] if kernel > 0 else None
        word = {Product: "product", Asked: "asked"}.get(type(made))
        if not word:
            return super().reference(kernel)
        return word, *(tuple(one) if isinstance(one, Matrix) else one for one in made)

    def load(self, reference):
        if reference[0] == "asked":
            made, dnn = Asked(*reference[1:]), self.attentions.library.dnn()
            return self.modules.number(made) if dnn is not None and dnn.version == made.version else None
        if reference[0] != "product":
            return super().load(reference)
        made = Product(*reference[1:])
        made = made._replace(**{name: Matrix(*getattr(made, name)) for name in "abd"})
        blas = self.products.library.blas() if self.libraries is not None else None
        return self.modules.number(made) if blas is not None and blas.version == made.version else None

    def fingerprint(self) -> str:
        return f"triton {self.architecture} {self.libraries.fingerprint() if self.libraries is not None else ''}"
