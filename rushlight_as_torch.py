"""With RUSHLIGHT_AS_TORCH=1, ``import torch`` means Rushlight in every process of Python: ``rushlight.pth`` imports
this module when one starts.

Nothing is imported before a program asks for one of the names.
"""
import sys


class Waiting:
    """Stands before other finders until somebody asks for ``torch``, or for the version of its distribution; then gives
    way to Rushlight's."""

    names = ("torch", "torchvision", "functorch")

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname.partition(".")[0] not in cls.names:
            return None
        sys.meta_path.remove(cls)
        from rushlight._src.compat import finder
        finder.install()
        sys.modules.pop(fullname, None)  # else its own spec would be taken for this name's, and its file run once more
        return finder.Finder().find_spec(fullname)

    @staticmethod
    def find_distributions(context):
        if context.name != "torch":
            return []
        from rushlight._src.compat.finder import MetadataFinder
        return MetadataFinder().find_distributions(context)


if "torch" not in sys.modules and Waiting not in sys.meta_path:
    sys.meta_path.insert(0, Waiting)
