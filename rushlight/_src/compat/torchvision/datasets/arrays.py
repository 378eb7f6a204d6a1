"""MNIST and CIFAR from their published file formats, and generated images."""
from __future__ import annotations

import gzip
import os

import numpy as np

import rushlight as torch
from ....plain_pickles import load_plain
from .vision import VisionDataset, refuse_download


class MNIST(VisionDataset):
    """Handwritten digits, 28 x 28, from the idx files (or their .gz) in ``root/MNIST/raw``."""

    parts = {True: "train", False: "t10k"}

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        part = self.parts[train]
        self.data, self.targets = torch.from_numpy(self.read(f"{part}-images-idx3-ubyte")), torch.from_numpy(
            self.read(f"{part}-labels-idx1-ubyte")).long()

    @property
    def raw_folder(self):
        return os.path.join(self.root, type(self).__name__, "raw")

    def read(self, name):
        """Read an idx file: two zeros, the type, the number of dimensions, the sizes, the bytes."""
        path = os.path.join(self.raw_folder, name)
        found = next((p for p in (path, path + ".gz") if os.path.exists(p)), None)
        if found is None:
            refuse_download(type(self).__name__, path)
        with (gzip.open if found.endswith(".gz") else open)(found, "rb") as file:
            content = file.read()
        rank = content[3]
        shape = np.frombuffer(content, ">i4", rank, 4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape).copy()

    def __getitem__(self, index):
        from PIL import Image
        return self.changed(Image.fromarray(self.data[index].numpy(), mode="L"), int(self.targets[index]))

    def __len__(self):
        return len(self.data)


class FashionMNIST(MNIST):
    """Clothes, in the format of MNIST."""


class KMNIST(MNIST):
    """Japanese letters, in the format of MNIST."""


class CIFAR10(VisionDataset):
    """Small photographs of ten classes, from the pickles in ``root/cifar-10-batches-py``."""

    base_folder, train_list, test_list, label, meta = "cifar-10-batches-py", [f"data_batch_{k}"
                                                                              for k in range(1, 6)], [
                                                                                      "test_batch"], "labels", (
                                                                                          "batches.meta", "label_names")

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train, self.targets, images = train, [], []
        for name in self.train_list if train else self.test_list:
            found = self.read(name)
            images.append(found["data"])
            self.targets += found[self.label]
        self.data = np.concatenate(images).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self.classes = self.read(self.meta[0])[self.meta[1]]
        self.class_to_idx = {c: k for k, c in enumerate(self.classes)}

    def read(self, name):
        path = os.path.join(self.root, self.base_folder, name)
        if not os.path.exists(path):
            refuse_download(type(self).__name__, path)
        with open(path, "rb") as file:
            return load_plain(file.read(), "latin1")

    def __getitem__(self, index):
        from PIL import Image
        return self.changed(Image.fromarray(self.data[index]), self.targets[index])

    def __len__(self):
        return len(self.data)


class CIFAR100(CIFAR10):
    """The same with a hundred classes."""

    base_folder, train_list, test_list, label, meta = "cifar-100-python", ["train"], ["test"], "fine_labels", (
        "meta", "fine_label_names")


class FakeData(VisionDataset):
    """Random images, the same for the same index."""

    def __init__(self, size=1000, image_size=(3, 224, 224), num_classes=10, transform=None, target_transform=None,
                 random_offset=0):
        super().__init__(None, transform=transform, target_transform=target_transform)
        self.size, self.image_size, self.num_classes, self.random_offset = size, image_size, num_classes, random_offset

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        from ..transforms.functional import to_pil_image
        generator = torch.Generator().manual_seed(index + self.random_offset)
        image = torch.randn(*self.image_size, generator=generator)
        target = int(torch.randint(0, self.num_classes, (1,), generator=generator))
        return self.changed(to_pil_image(image), target)

    def __len__(self):
        return self.size
