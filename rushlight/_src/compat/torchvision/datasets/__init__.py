"""Datasets that read local files."""
from ...absent import absent
from .arrays import CIFAR10, CIFAR100, MNIST, FakeData, FashionMNIST, KMNIST
from .folder import DatasetFolder, ImageFolder
from .vision import VisionDataset

__all__ = ["CIFAR10", "CIFAR100", "DatasetFolder", "FakeData", "FashionMNIST", "ImageFolder", "KMNIST", "MNIST",
           "VisionDataset"]
globals().update(absent("torchvision.datasets",
                        "it is not part of the stand-in, which reads MNIST, CIFAR and folders of images",
                        "ImageNet CocoDetection CocoCaptions VOCDetection "
                        "VOCSegmentation SVHN STL10 CelebA Places365 QMNIST EMNIST Food101 Flowers102 OxfordIIITPet"))
