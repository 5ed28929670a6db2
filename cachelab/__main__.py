"""``python -m cachelab``: the same as the command ``cachelab``."""

from __future__ import annotations

import sys

from cachelab.cli import main

if __name__ == "__main__":
    sys.exit(main())
