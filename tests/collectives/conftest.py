"""PyTorch first: it loads the hpu device, and with it our packages, in the order in which a script would have them."""

from __future__ import annotations

import torch  # noqa: F401
