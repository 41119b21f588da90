"""Labelled texts from a set of TensorFlow Datasets (TFDS), which is imported inside functions: it takes seconds."""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from mha_cli.config.settings import TfdsData
from mha_cli.errors import EXIT_FAILURE, MhaError, closest, did_you_mean, printable, reason_of, shown_path
from mha_cli.sources.labelled_text import LabelledText, TextSource
from mha_cli.sources.labels import labelled, merged
from mha_cli.sources.targets import names_in_labels
from mha_cli.system.private_names import only_features_of_tfds
from mha_cli.system.tensorflow_setup import import_tensorflow

BATCH_SIZE = 256  # texts that are taken from TensorFlow at once
NETWORK_TIMEOUT_S = 10.0  # seconds that the server of a set has to answer before a download is given up
DEFAULT_DATA_DIR = "~/tensorflow_datasets"  # folder of TFDS's sets unless TFDS_DATA_DIR names another one
_CATALOGUE = "https://www.tensorflow.org/datasets/catalog/overview"
_NAME = re.compile(r"\w+(/[\w.+-]+)?(:(\d+|\*)(\.(\d+|\*)){2})?", re.ASCII)


class TfdsTexts(TextSource):
    """The texts of a TFDS set, which is downloaded first if its folder lacks it; splits may be parts: ``train[90%:]``, ``train+test``."""

    def __init__(self, settings: TfdsData, log: Callable[[str], None] = lambda _: None) -> None:
        self._settings = settings
        self.name = settings.name
        data_dir = _data_dir()
        self._builder = _open_builder(settings.name, data_dir)
        self._way_out = f"remove {shown_path(self._builder.data_path)}, and fetch or copy the set again"
        labels, place = _class_labels(self._builder.info.features, settings), f"{settings.name}, {settings.label_key}"
        self._named = [*merged((labelled("", label, place) for label in labels), settings.merge_labels)]  # a text to fill in for each id
        self.class_names = tuple(names_in_labels(text.label for text in self._named))
        if not self._builder.data_path.exists():
            _prepare(self._builder, settings.name, data_dir, log)
        self._split_names = tuple(map(str, self._builder.info.splits))
        self.splits = tuple(dict.fromkeys([settings.train_split, settings.test_split, *self._split_names]))
        for setting in ("train_split", "test_split", "unlabelled_split"):
            if (split := getattr(settings, setting)) is not None:
                self._check_split(split, f" (data.{setting})")

    def read(self, split: str) -> Iterator[LabelledText]:
        """The texts of a split, in the order of the set's files; bytes that are not UTF-8 become U+FFFD."""
        self._check_split(split)
        for number, (text, label) in enumerate(self._columns(split, self._settings.text_key, self._settings.label_key), start=1):
            if label < 0:  # TFDS writes -1 where a split has no labels
                raise MhaError(f"{self.name}: text {number} of the split {printable(split)} has no label", "choose a split with labels")
            yield self._named[label]._replace(text=text.decode("utf-8", "replace"), file=f"{self.name}, split {split}", line=number)

    def unlabelled(self) -> Iterator[str] | None:
        """The texts of ``data.unlabelled_split``, labelled or not."""
        if (split := self._settings.unlabelled_split) is None:
            return None
        return (text.decode("utf-8", "replace") for (text,) in self._columns(split, self._settings.text_key))

    def _columns(self, split: str, *keys: str) -> Iterator[tuple[Any, ...]]:
        """The features ``keys`` of one text after the other; no other feature is decoded."""
        import tensorflow as tf
        import tensorflow_datasets as tfds

        config = tfds.ReadConfig(try_autocache=False, interleave_cycle_length=1)  # one file after the other
        config.options.deterministic = True
        config.options.threading.private_threadpool_size = 2
        try:
            wanted = tfds.decode.PartialDecoding(dict.fromkeys(keys, True))
            examples = self._builder.as_dataset(split=split, shuffle_files=False, read_config=config, decoders=wanted)
            for batch in tfds.as_numpy(examples.batch(BATCH_SIZE).prefetch(1)):
                yield from zip(*(batch[key].tolist() for key in keys), strict=True)
        except (tf.errors.OpError, NotImplementedError, OSError, ValueError) as error:
            problem = re.sub(r"\{\{.*?\}\} |\[Op:.*", "", reason_of(error, 1000)).strip()
            message = f"{self.name}: the split {printable(split)} cannot be read: {printable(problem, 200)}"
            raise MhaError(message, self._way_out, EXIT_FAILURE) from None

    def _check_split(self, split: str, setting: str = "") -> None:
        try:
            self._builder.info.splits[split]
        except (KeyError, ValueError, AssertionError):
            hint = did_you_mean(printable(split), self._split_names) if self._split_names else self._way_out
            raise MhaError(f'{self.name} has no split "{printable(split)}"{setting}', hint) from None


def _data_dir() -> str:
    """The TFDS data directory: the environment's, which has to exist, else TFDS's default, which it may create."""
    folder = os.environ.get("TFDS_DATA_DIR")
    path = os.path.expanduser(folder or DEFAULT_DATA_DIR)
    if folder and not os.path.isdir(path):
        raise MhaError(f"TFDS_DATA_DIR: {shown_path(folder)}: no such folder", "create it, or name the one that holds your TFDS sets")
    return path


def _open_builder(name: str, data_dir: str) -> Any:
    """TFDS's builder of a set in its own catalogue or in the data folder; nothing is downloaded."""
    shown = printable(name)
    if not _NAME.fullmatch(name):  # a name with a namespace, huggingface:… say, would be looked up on the network
        hint = f"write NAME, NAME/CONFIG or NAME/CONFIG:VERSION; for the names see {_CATALOGUE}"
        raise MhaError(f'data.name is "{shown}", not the name of a TFDS set', hint)
    import_tensorflow()
    import tensorflow_datasets as tfds

    logging.getLogger("absl").setLevel(logging.ERROR)  # TFDS's warnings are about its own use of TensorFlow
    try:
        with only_features_of_tfds():
            return tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError:
        hint = closest(name, tfds.list_builders(with_community_datasets=False)) or f"for the names see {_CATALOGUE}"
        message = f'data.name is "{shown}": neither in the TFDS catalogue nor in {shown_path(data_dir)}'
        raise MhaError(message, hint) from None
    except Exception as error:
        problem = reason_of(error, 1000).rpartition('}": ')[2].rstrip(".")  # after TFDS's repetition of what it was asked for
        hint = f"for names and versions see {_CATALOGUE}, or remove the set's folder if it is damaged"
        raise MhaError(f'data.name is "{shown}": {printable(problem, 200)}', hint) from None


def _class_labels(features: Any, settings: TfdsData) -> tuple[str, ...]:
    """The class labels of a set, once its features are a text and a class."""
    import numpy as np
    import tensorflow_datasets as tfds

    known = dict(features.items()) if isinstance(features, tfds.features.FeaturesDict) else {}
    strings = {key: feature for key, feature in known.items() if isinstance(feature, tfds.features.Tensor) and feature.shape == ()}
    texts = [key for key, feature in strings.items() if feature.np_dtype == np.object_]
    labels = [key for key, feature in known.items() if isinstance(feature, tfds.features.ClassLabel) and feature.num_classes is not None]
    wanted = (("data.text_key", settings.text_key, texts, "a text"), ("data.label_key", settings.label_key, labels, "a class label"))
    for setting, key, choices, kind in wanted:
        if key not in choices:
            hint = did_you_mean(printable(key), [*map(printable, choices)]) if choices else "choose another set"
            raise MhaError(f'{settings.name}: no feature "{printable(key)}" that is {kind} ({setting})', hint)
    return tuple(map(str, known[settings.label_key].names))


def _prepare(builder: Any, name: str, data_dir: str, log: Callable[[str], None]) -> None:
    """Download a set and write it into the data folder; TFDS's progress bars go to stderr."""
    shown = shown_path(data_dir)
    log(f"downloading {name} to {shown}")
    try:
        if url := next((url for url in builder.url_infos or () if url.startswith("http")), None):
            with suppress(HTTPError):  # a server that answers; without network, TFDS would try for minutes, and leave folders behind
                urlopen(Request(url, method="HEAD"), timeout=NETWORK_TIMEOUT_S).close()
        with redirect_stdout(sys.stderr):  # TFDS prints what it is about to do
            builder.download_and_prepare()
    except Exception as error:  # whatever a set's own code, the network or the disk raises
        script = f"import tensorflow_datasets as tfds; tfds.load('{name}')"
        copy = f'on a machine with network run `python -c "{script}"`, copy its folder ~/tensorflow_datasets here'
        hint = f"{copy}, and set TFDS_DATA_DIR to the copy"
        raise MhaError(f"{name} cannot be downloaded to {shown}: {reason_of(error)}", hint, EXIT_FAILURE) from None
