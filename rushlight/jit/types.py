"""The types of TorchScript, which annotations name: programs stay Python here, so no value has one."""
from .._src.compat.absent import absent

globals().update(absent("torch", "programs are not turned into TorchScript graphs",
                        "TensorType IntType FloatType BoolType StringType ListType TupleType DictType OptionalType "
                        "NoneType AnyType"))
