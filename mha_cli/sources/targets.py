"""Labels as numbers: the class id of each text, int32 (N,), or where texts may have several labels, which classes each has, bool (N, C)."""

from collections.abc import Iterable, Sequence

import numpy as np

from mha_cli.arrays import Array, Bools, Floats, Int32s, Int64s

Labels = Array  # class ids, int32 (N,), or memberships, bool (N, C)


def are_several(labels: Labels) -> bool:
    """Whether texts may have several labels, or none."""
    return labels.ndim == 2


def one_hot(labels: Labels, num_classes: int) -> Floats:
    """(N, C): 1 for each class of the text and 0 for the others."""
    if are_several(labels):
        return labels.astype(np.float32)
    targets = np.zeros((len(labels), num_classes), np.float32)
    targets[np.arange(len(labels)), labels] = 1.0
    return targets


def has_class(labels: Labels, class_id: int) -> Bools:
    """Which texts have a class, (N,)."""
    has_it: Bools = labels[:, class_id] if are_several(labels) else labels == class_id
    return has_it


def class_sizes(labels: Labels, num_classes: int) -> Int64s:
    """Texts of each class, (C,)."""
    return labels.sum(axis=0, dtype=np.int64) if are_several(labels) else np.bincount(labels, minlength=num_classes)


def rarest_classes(labels: Labels) -> Int32s:
    """One class id for each text, (N,), by which texts are dealt out evenly: of several classes the rarest, and C for none.

    Source: Sechidis, Tsoumakas and Vlahavas 2011, "On the Stratification of Multi-Label Data", section 3 (the rarest label first).
    """
    if not are_several(labels):
        return np.asarray(labels, np.int32)
    sizes = np.append(labels.sum(axis=0, dtype=np.int64), len(labels) + 1)
    of_texts = np.pad(labels, ((0, 0), (0, 1)), constant_values=True)
    return np.asarray(np.where(of_texts, sizes, len(labels) + 2).argmin(axis=1), np.int32)


def numbers_of_labels(labels: Sequence[str | tuple[str, ...]], class_names: Sequence[str]) -> Labels:
    """Labels by their names as numbers: class ids, (N,), or where any of them is a list, the classes that each text has, (N, C)."""
    class_ids = {name: class_id for class_id, name in enumerate(class_names)}
    single = [label for label in labels if isinstance(label, str)]
    if len(single) == len(labels):
        return np.array([class_ids[label] for label in single], np.int32)
    memberships = np.zeros((len(labels), len(class_names)), bool)
    for row, label in enumerate(labels):
        memberships[row, [class_ids[name] for name in names_in_labels([label])]] = True
    return memberships


def names_in_labels(labels: Iterable[str | tuple[str, ...]]) -> list[str]:
    """The names in labels and lists of labels, each once."""
    return list(dict.fromkeys(name for label in labels for name in ((label,) if isinstance(label, str) else label)))
