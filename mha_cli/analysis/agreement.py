"""How far two people agree who have labelled the same texts.

Source: Cohen 1960, "A Coefficient of Agreement for Nominal Scales": kappa, the share of the agreement that chance leaves open.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from sklearn.metrics import cohen_kappa_score

from mha_cli.config.settings import Config
from mha_cli.errors import MhaError
from mha_cli.labelling.next_texts import same_text
from mha_cli.sources.labelled_text import Label, LabelledText
from mha_cli.sources.labels import find_respelt, merged
from mha_cli.sources.opening import open_source
from mha_cli.system.callbacks import SILENT, Callbacks


@dataclass(frozen=True)
class Difference:
    """A text that has another label in the other file."""

    file: str
    line: int | None  # as of a ``LabelledText``
    label: Label
    other_file: str
    other_line: int | None
    other_label: Label
    text: str


@dataclass(frozen=True)
class Agreement:
    """The labels of two files, compared. A kappa is None where both files have one and the same label throughout."""

    data: str
    other: str
    num_texts: int  # in both files
    num_equal: int  # texts with equal labels
    kappa: float | None  # of several labels per text the mean of those of the labels
    kappa_of_labels: dict[str, float | None]  # of each label, if texts may have several; else empty
    num_only_here: int  # texts that the other file lacks
    num_only_other: int
    differences: list[Difference]


def find_agreement(config: Config, other: Config, by_options: bool = False, callbacks: Callbacks = SILENT) -> Agreement:
    """Compare the labels of the training data of two configs, text by text.

    Texts that differ in white space alone are the same; of a repeated text, the first label of each file counts. Labels that differ in
    case alone are equal. With ``by_options``, messages name options of the command rather than settings.
    """
    sources = [open_source(each.data, callbacks, by_options) for each in (config, other)]
    files = [list(source.read(source.splits[0])) for source in sources]
    respelt = find_respelt(Counter(chain.from_iterable(_labels(text) for texts in files for text in texts)))
    here, there = ({same_text(text.text): text for text in merged(reversed(texts), respelt)} for texts in files)
    pairs = [(here[key], there[key]) for key in reversed(here) if key in there]
    if not pairs:
        message = f"{sources[0].name} and {sources[1].name}: no text is in both"
        raise MhaError(message, "give the labels of two people for the same texts")
    labels = [(_labels(one), _labels(two)) for one, two in pairs]
    several = any(not isinstance(text.label, str) for pair in pairs for text in pair)
    names = sorted(set(chain.from_iterable(chain.from_iterable(labels)))) if several else []
    kappa_of_labels = {name: _kappa([(name in one, name in two) for one, two in labels]) for name in names}
    kappa = _kappa(labels)
    if several:
        defined = [kappa for kappa in kappa_of_labels.values() if kappa is not None]
        kappa = fmean(defined) if defined else None
    unequal = [(one, two) for one, two in pairs if _labels(one) != _labels(two)]
    differences = [Difference(one.file, one.line, one.label, two.file, two.line, two.label, one.text) for one, two in unequal]
    num_texts, num_equal = len(pairs), len(pairs) - len(differences)
    only = len(here) - num_texts, len(there) - num_texts
    return Agreement(sources[0].name, sources[1].name, num_texts, num_equal, kappa, kappa_of_labels, *only, differences)


def _labels(text: LabelledText) -> tuple[str, ...]:
    return (text.label,) if isinstance(text.label, str) else text.label


def _kappa(labels: Sequence[tuple[object, object]]) -> float | None:
    here, there = zip(*((str(one), str(two)) for one, two in labels), strict=True)
    return float(cohen_kappa_score(here, there)) if len({*here, *there}) > 1 else None
