"""The toy move is a package of its own, as a stranger's would be; it is found by its entry point."""

import sys
from pathlib import Path

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)
