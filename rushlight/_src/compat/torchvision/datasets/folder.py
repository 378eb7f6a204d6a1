"""Directories of files, one directory for each class."""
from __future__ import annotations

import os

from .vision import VisionDataset

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def pil_loader(path):
    """Read a file as an RGB image."""
    from PIL import Image
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


default_loader = pil_loader


def find_classes(directory):
    """Return the subdirectories of a directory and the index of each.  FileNotFoundError if there are none."""
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")  # dialect: ok - torchvision's text
    return classes, {c: k for k, c in enumerate(classes)}


def make_dataset(directory, class_to_idx, extensions=None, is_valid_file=None, allow_empty=False):
    """List the files of each class: [(path, class)].  FileNotFoundError for a class without any."""
    def wanted(name):
        return is_valid_file(name) if is_valid_file is not None else name.lower().endswith(tuple(extensions))
    found = []
    for name in sorted(class_to_idx):
        own = [(os.path.join(root, file), class_to_idx[name])
               for root, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True))
               for file in sorted(files) if wanted(os.path.join(root, file))]
        if not own and not allow_empty:
            raise FileNotFoundError(
                f"Found no valid file for the classes {name}. Supported extensions are: {', '.join(extensions or ())}")
        found += own
    return found


class DatasetFolder(VisionDataset):
    """Files, each in the directory of its class, read by ``loader``."""

    def __init__(self, root, loader, extensions=None, transform=None, target_transform=None, is_valid_file=None,
                 allow_empty=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader, self.extensions = loader, extensions
        self.classes, self.class_to_idx = find_classes(self.root)
        self.samples = make_dataset(self.root, self.class_to_idx, extensions, is_valid_file, allow_empty)
        self.targets = [target for _, target in self.samples]

    def __getitem__(self, index):
        path, target = self.samples[index]
        return self.changed(self.loader(path), target)

    def __len__(self):
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """Images, each in the directory of its class."""

    def __init__(self, root, transform=None, target_transform=None, loader=default_loader, is_valid_file=None,
                 allow_empty=False):
        super().__init__(root, loader, None if is_valid_file else IMG_EXTENSIONS, transform, target_transform,
                         is_valid_file, allow_empty)
        self.imgs = self.samples
