"""``python -m benchmarks``: all of them; see run.py."""

from __future__ import annotations

import sys
from pathlib import Path

# The scripts here import each other as they do when they are run one by one.
sys.path.insert(0, str(Path(__file__).parent))

from run import main

raise SystemExit(main())
