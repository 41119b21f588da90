"""How a prediction is written in one line."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from mha_cli.errors import printable

if TYPE_CHECKING:
    from mha_cli.runtime.classifier import Prediction


def prediction_line(prediction: Prediction, number: int, *, as_json: bool, with_text: bool) -> str:
    """One line for one prediction, with nothing in it that a terminal would obey.

    Args:
        prediction: what the classifier said.
        number: of the text, from 1; the ``id`` in JSON.
        as_json: an object instead of columns.
        with_text: add the beginning of the text.
    """
    if as_json:
        fields = {
            "id": number,
            "label": prediction.label,
            "probability": round(prediction.probability, 6),
            "probabilities": {name: round(value, 6) for name, value in prediction.probabilities.items()},
            "tokens": prediction.num_tokens,
            "unknown": prediction.num_unknown,
            "truncated": prediction.truncated,
        }
        return json.dumps(fields)  # ASCII only: control characters and the rest come out escaped
    line = f"{printable(prediction.label)}\t{prediction.probability:.4f}"
    if not with_text:
        return line
    room = shutil.get_terminal_size().columns - len(line.expandtabs()) - 8
    return f"{line}\t{printable(prediction.text, max(room, 20))}"
