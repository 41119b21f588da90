"""Labelled reviews from a text-classification set of TensorFlow Datasets (TFDS).

TensorFlow and TFDS are imported inside functions only: importing this module costs nothing.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from mha_cli.data.labelled_text import LabelledText
from mha_cli.data.labels import class_name, labelled
from mha_cli.errors import EXIT_FAILURE, MhaError, closest, did_you_mean, printable, shown_path
from mha_cli.system.tensorflow_setup import import_tensorflow

if TYPE_CHECKING:
    from mha_cli.config.settings import TfdsData

BATCH_SIZE = 256
"""Reviews that are taken from TensorFlow at once."""

NETWORK_TIMEOUT_S = 10.0
"""Seconds that the server of a set has to answer before a download is given up."""

MAX_SERVERS = 3
"""Servers of a set that are tried before a download is given up."""

DEFAULT_DATA_DIR = "~/tensorflow_datasets"
"""Folder of TFDS's sets unless TFDS_DATA_DIR names another one."""

_CATALOGUE = "https://www.tensorflow.org/datasets/catalog/overview"
_NAME = re.compile(r"\w+(/[\w.+-]+)?(:(\d+|\*)(\.(\d+|\*)){2})?", re.ASCII)
_OWN_FEATURES = "tensorflow_datasets."
_PORTS = {"http": 80, "https": 443, "ftp": 21}


class TfdsTexts:
    """The reviews of a TFDS set; the set is downloaded and prepared first if its folder does not hold it.

    Besides a split's name TFDS's own notation for parts of splits is understood: ``train[90%:]``, ``train+test``.

    Args:
        settings: ``data`` section of a config whose source is ``tfds``.
    """

    def __init__(self, settings: TfdsData, log: Callable[[str], None] = lambda _: None) -> None:
        self._settings = settings
        self.name = settings.name
        data_dir = _data_dir(settings)
        with _quiet():
            self._builder = _open_builder(settings.name, data_dir)
            self._labels = _class_labels(self._builder.info.features, settings)
            self.class_names = tuple(dict.fromkeys(class_name(label, f"{settings.name}, {settings.label_key}") for label in self._labels))
            if not self._builder.data_path.exists():
                _prepare(self._builder, settings.name, data_dir, log)
            self._split_names = tuple(map(str, self._builder.info.splits))
        self.splits = tuple(dict.fromkeys([settings.train_split, settings.test_split, *self._split_names]))
        if not self._split_names:
            folder = shown_path(self._builder.data_path)
            raise MhaError(
                f"{settings.name}: {folder} holds no prepared set", "remove that folder, and the set is downloaded again", EXIT_FAILURE
            )
        for setting in ("train_split", "test_split", "unlabelled_split"):
            if (split := getattr(settings, setting)) is not None:
                self._check_split(split, f" (data.{setting})")

    def read(self, split: str) -> Iterator[LabelledText]:
        """The reviews of a split, in the order of the set's files; bytes that are not UTF-8 become U+FFFD."""
        self._check_split(split)
        return self._labelled(split)

    def unlabelled(self) -> Iterator[str] | None:
        """The texts of ``data.unlabelled_split``."""
        split = self._settings.unlabelled_split
        return None if split is None else self.read_texts(split)

    def read_texts(self, split: str) -> Iterator[str]:
        """The texts of a split, labelled or not; otherwise as ``read``."""
        self._check_split(split)
        return (text.decode("utf-8", "replace") for (text,) in self._columns(split, self._settings.text_key))

    def _labelled(self, split: str) -> Iterator[LabelledText]:
        for number, (text, label) in enumerate(self._columns(split, self._settings.text_key, self._settings.label_key), start=1):
            if label < 0:  # what TFDS writes where a split has no labels
                shown = printable(split)
                found = f"the split {shown} has no labels" if number == 1 else f"text {number} of the split {shown} has no label"
                others = [name for name in self.splits if name != split]
                hint = f"choose one with labels, from {printable(', '.join(others), 200)}" if others else "choose another set"
                raise MhaError(f"{self.name}: {found}", hint)
            yield labelled(text.decode("utf-8", "replace"), self._labels[label], f"{self.name}, text {number}")

    def _columns(self, split: str, *keys: str) -> Iterator[tuple[Any, ...]]:
        """The features ``keys`` of one review after the other; no other feature is decoded."""
        import tensorflow as tf
        import tensorflow_datasets as tfds

        config = tfds.ReadConfig(try_autocache=False, interleave_cycle_length=1)  # one file after the other
        config.options.deterministic = True
        config.options.threading.private_threadpool_size = 2
        try:
            with _quiet():
                wanted = tfds.decode.PartialDecoding(dict.fromkeys(keys, True))
                examples = self._builder.as_dataset(split=split, shuffle_files=False, read_config=config, decoders=wanted)
                batches = iter(tfds.as_numpy(examples.batch(BATCH_SIZE).prefetch(1)))
            for batch in batches:
                yield from zip(*(batch[key].tolist() for key in keys), strict=True)
        except (tf.errors.OpError, NotImplementedError, OSError, ValueError) as error:
            problem = re.sub(r"\{\{.*?\}\} |\[Op:.*", "", _first_line(error)).strip()
            folder = shown_path(self._builder.data_path)
            message = f"{self.name}: the split {printable(split)} cannot be read: {printable(problem, 200)}"
            raise MhaError(message, f"remove {folder}, and fetch or copy the set again", EXIT_FAILURE) from None

    def _check_split(self, split: str, setting: str = "") -> None:
        try:
            self._builder.info.splits[split]
        except (KeyError, ValueError, AssertionError):
            message = f'{self.name} has no split "{printable(split)}"{setting}'
            raise MhaError(message, did_you_mean(printable(split), self._split_names)) from None


def _data_dir(settings: TfdsData) -> str:
    """The TFDS data directory: the config's or the environment's, which has to exist, else TFDS's default, which it may create."""
    # TFDS reads the environment only once, when it is imported.
    for setting, folder in (("data.data_dir", settings.data_dir), ("TFDS_DATA_DIR", os.environ.get("TFDS_DATA_DIR") or None)):
        if folder is not None:
            path = os.path.expanduser(folder)
            if not os.path.isdir(path):
                found = "is not a folder" if os.path.exists(path) else "does not exist"
                raise MhaError(f"{setting}: {shown_path(folder)} {found}", "create the folder, or name the one that holds your TFDS sets")
            return path
    return os.path.expanduser(DEFAULT_DATA_DIR)


def _open_builder(name: str, data_dir: str) -> Any:
    """TFDS's builder of a set in its own catalogue or in the data folder; nothing is downloaded."""
    shown = printable(name)
    if not _NAME.fullmatch(name):  # a name with a namespace, huggingface:… say, would be looked up on the network
        hint = f"write NAME, NAME/CONFIG or NAME/CONFIG:VERSION; for the names see {_CATALOGUE}"
        raise MhaError(f'data.name is "{shown}", not the name of a TFDS set', hint)
    import_tensorflow()
    import tensorflow_datasets as tfds

    try:
        with _features_of_tfds_alone(tfds):
            return tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError:
        hint = closest(name, tfds.list_builders(with_community_datasets=False)) or f"for the names see {_CATALOGUE}"
        message = f'data.name is "{shown}": neither in the TFDS catalogue nor in {shown_path(data_dir)}'
        raise MhaError(message, hint) from None
    except Exception as error:
        set_name, _, config = re.sub(":.*", "", name).partition("/")
        configs = _configs(set_name)
        if config and config not in configs:
            message = f'data.name is "{shown}": {set_name} has no config "{config}"'
            raise MhaError(message, did_you_mean(config, configs) if configs else f"write {set_name}") from None
        problem = _first_line(error).rpartition('}": ')[2].rstrip(".")  # after TFDS's repetition of what it was asked for
        hint = f"for names and versions see {_CATALOGUE}, or remove the set's folder if it is damaged"
        raise MhaError(f'data.name is "{shown}": {printable(problem, 200)}', hint) from None


@contextmanager
def _features_of_tfds_alone(tfds: Any) -> Iterator[None]:
    """Refuse a set's folder that names other features than TFDS's own: to find one, TFDS would import whatever module it names."""
    connector = tfds.features.FeatureConnector
    before = vars(connector)["cls_from_name"]

    def cls_from_name(_: Any, name: str) -> Any:
        if not name.startswith(_OWN_FEATURES):
            raise ValueError(f"its features.json names {name}, which is none of TFDS's features")
        return before.__get__(None, connector)(name)

    connector.cls_from_name = classmethod(cls_from_name)
    try:
        yield
    finally:
        connector.cls_from_name = before


def _configs(name: str) -> list[str]:
    import tensorflow_datasets as tfds

    try:
        return list(tfds.builder_cls(name).builder_configs)
    except tfds.core.DatasetNotFoundError:
        return []


def _class_labels(features: Any, settings: TfdsData) -> tuple[str, ...]:
    """The class labels of a set, once its features are a text and a class."""
    import numpy as np
    import tensorflow_datasets as tfds

    if not isinstance(features, tfds.features.FeaturesDict):
        raise MhaError(f"{settings.name}: its examples have no named features", "choose a set of texts with one class each")
    for setting, key in (("data.text_key", settings.text_key), ("data.label_key", settings.label_key)):
        if key not in features:
            names = [printable(name) for name in features]
            message = f'{settings.name} has no feature "{printable(key)}" ({setting}) among {", ".join(sorted(names))}'
            raise MhaError(message, did_you_mean(printable(key), names))
    text, label = features[settings.text_key], features[settings.label_key]
    if not (isinstance(text, tfds.features.Tensor) and text.shape == () and text.np_dtype == np.object_):
        texts = [key for key, feature in features.items() if isinstance(feature, tfds.features.Text) and key != settings.text_key]
        raise _wrong_feature(settings.name, settings.text_key, "data.text_key", text, "a text", texts)
    if not isinstance(label, tfds.features.ClassLabel) or label.num_classes is None:
        labels = [key for key, feature in features.items() if isinstance(feature, tfds.features.ClassLabel) and key != settings.label_key]
        raise _wrong_feature(settings.name, settings.label_key, "data.label_key", label, "a class label", labels)
    return tuple(map(str, label.names))


def _wrong_feature(name: str, key: str, setting: str, feature: Any, wanted: str, choices: list[str]) -> MhaError:
    message = f'{name}: the feature "{printable(key)}" ({setting}) is {printable(repr(feature), 60)}, not {wanted}'
    hint = f"choose from {printable(', '.join(sorted(choices)), 200)}" if choices else f"the set has no feature that is {wanted}"
    return MhaError(message, hint)


def _prepare(builder: Any, name: str, data_dir: str, log: Callable[[str], None]) -> None:
    """Download a set and write it into the data folder; TFDS's progress bars go to stderr."""
    shown = shown_path(data_dir)
    log(f"downloading {name} to {shown}")
    try:
        _check_network(builder)
        with redirect_stdout(sys.stderr):  # TFDS prints what it is about to do
            builder.download_and_prepare()
    except Exception as error:  # whatever a set's own code, the network or the disk raises
        script = f"import tensorflow_datasets as tfds; tfds.load('{name}')"
        hint = (
            f'on a machine with network run `python -c "{script}"`, copy its folder ~/tensorflow_datasets here, '
            "and set TFDS_DATA_DIR or data.data_dir to the copy"
        )
        message = f"{name} cannot be downloaded to {shown}: {printable(_first_line(error), 200)}"
        raise MhaError(message, hint, EXIT_FAILURE) from None


def _check_network(builder: Any) -> None:
    """Fail within seconds where there is no network: TFDS itself would try for minutes, and leave folders behind.

    Raises:
        OSError: none of the servers that hold the set's files can be reached.
    """
    if set(getproxies()) - {"no"}:
        return  # the proxy decides what can be reached
    urls = [parts for parts in map(urlsplit, builder.url_infos or ()) if parts.scheme in _PORTS]
    servers = list(dict.fromkeys((parts.hostname, parts.port or _PORTS[parts.scheme]) for parts in urls))
    failure = None
    for host, port in servers[:MAX_SERVERS]:
        try:
            socket.create_connection((host, port), timeout=NETWORK_TIMEOUT_S).close()
            return
        except OSError as error:
            failure = failure or OSError(f"no connection to {host} ({error.strerror or error})")
    if failure is not None:
        raise failure


def _first_line(error: Exception) -> str:
    """An error in one line: its first line of text, or its type where it has none."""
    return next((line for line in map(str.strip, str(error).splitlines()) if line), type(error).__name__)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hold back TFDS's warnings about its own use of TensorFlow, which nobody here can act on."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
