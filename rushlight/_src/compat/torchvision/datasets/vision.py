"""Base class of image datasets."""
from __future__ import annotations

import os

from rushlight.utils.data import Dataset


class VisionDataset(Dataset):
    """A dataset in a directory, with a transform of images, one of targets, or one of both."""

    def __init__(self, root=None, transforms=None, transform=None, target_transform=None):
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        self.transform, self.target_transform, self.transforms = transform, target_transform, transforms

    def changed(self, image, target):
        """Apply the transforms to a sample."""
        if self.transforms is not None:
            return self.transforms(image, target)
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def __repr__(self):
        return f"Dataset {type(self).__name__}\n    Number of datapoints: {len(self)}\n    Root location: {self.root}"


def refuse_download(name, wanted):
    """RuntimeError for missing files."""
    raise RuntimeError(f"Dataset not found: {name} reads {wanted}. Rushlight does not download: put it there.")
