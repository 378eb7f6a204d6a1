"""Points of TensorBoard's projector: separate files next to the event files."""
from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig

from .summary import array, in_grid, png


def written(folder, points, labels, pictures, step, tag, header) -> EmbeddingInfo:
    """Write points [n, dimensions], their labels and images below a directory; return the projector's configuration."""
    if points.ndim != 2:
        raise AssertionError(f"mat should be 2D, one row for each point, got {list(points.shape)}")
    below = f"{step:05d}/{encoded(tag)}"
    place = Path(folder, below)
    place.mkdir(parents=True, exist_ok=True)
    (place / "tensors.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in points.tolist()))
    info = EmbeddingInfo(tensor_name=f"{tag}:{step:05d}", tensor_path=os.path.join(below, "tensors.tsv"))
    if labels is not None:
        if len(labels) != len(points):
            raise AssertionError(f"#labels should equal with #data points: {len(labels)} and {len(points)}")
        (place / "metadata.tsv").write_text("\n".join(lines_of(labels, header)) + "\n")
        info.metadata_path = os.path.join(below, "metadata.tsv")
    if pictures is not None:
        if len(pictures) != len(points):
            raise AssertionError(f"#images should equal with #data points: {len(pictures)} and {len(points)}")
        (place / "sprite.png").write_bytes(png(sprite(array(pictures))))
        info.sprite.image_path = os.path.join(below, "sprite.png")
        info.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
    return info


def encoded(tag: str) -> str:
    """A tag as a part of a path."""
    return "".join(c if c.isalnum() or c in "_.-~" else "".join(f"%{b:02x}" for b in c.encode()) for c in tag)


def lines_of(labels, header) -> list:
    if not header:
        return [str(label) for label in labels]
    if len(header) != len(labels[0]):
        raise AssertionError(f"len of header must be equal to the number of columns in metadata: {len(header)} and "
                             f"{len(labels[0])}")
    return ["\t".join(map(str, row)) for row in (header, *labels)]


def sprite(pictures: np.ndarray) -> np.ndarray:
    """All pictures [n, channels, height, width] of numbers in 0..1 in one square, as the projector cuts them."""
    columns = math.ceil(len(pictures) ** 0.5)
    found = in_grid(np.clip(pictures * 255, 0, 255).astype(np.uint8).transpose(0, 2, 3, 1), columns)
    if found.shape[2] == 1:
        found = np.repeat(found, 3, axis=2)
    square = np.zeros((found.shape[1], found.shape[1], 3), np.uint8)
    square[:found.shape[0]] = found[:found.shape[1]]
    return square


def list_all(folder, embeddings) -> None:
    """The list of all sets of points of a run, which the projector reads."""
    Path(folder, "projector_config.pbtxt").write_text(
        text_format.MessageToString(ProjectorConfig(embeddings=embeddings)))
