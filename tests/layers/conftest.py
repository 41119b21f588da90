"""Lets the tests of this folder import the layer contract."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
