"""``torch.package``: not here."""
from .compat.absent import absent

globals().update(absent("torch.package", "code is not packed with weights: save the state_dict, or use torch.export", "PackageExporter PackageImporter Importer OrderedImporter "
                        "EmptyMatchError PackagingError"))
