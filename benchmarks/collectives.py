"""`python benchmarks/collectives.py`: the collectives beside gloo and OpenMPI; see `compare_collectives.py`.

A script's folder comes first on Python's path, so for the benchmarks beside it `import collectives` finds this file. To
them it gives the package.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    from compare_collectives import main

    sys.exit(main())
else:
    _path, _folder = sys.path[:], Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in _path if Path(entry or ".").resolve() != _folder]
    del sys.modules[__name__]
    try:
        importlib.import_module(__name__)
    finally:
        sys.path[:] = _path
