"""All of these tests need the extra ``pretrained``."""

from importlib.util import find_spec
from pathlib import Path

import pytest

collect_ignore_glob = [] if find_spec("tokenizers") and find_spec("safetensors") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and not item.get_closest_marker("minilm"):  # which needs a real encoder, too
            item.add_marker(pytest.mark.extras)
