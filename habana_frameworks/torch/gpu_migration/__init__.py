"""Scripts written for CUDA, on hpu: importing this module maps the CUDA names of PyTorch to those of the card.

`import habana_frameworks.torch.gpu_migration`, or PT_HPU_GPU_MIGRATION=1 with any import of `habana_frameworks.torch`,
maps, for the whole process and for good:

- `torch.cuda.*` to `torch.hpu.*`; what a card has no counterpart of answers as on a machine where it is switched off;
- devices named `cuda` or `cuda:N`, wherever PyTorch takes a device, to `hpu:0`, the one card of the process;
- `cuda` in `torch.autocast`, `torch.amp` and `GradScaler` to `hpu`; the backend `nccl` to `hccl`;
- imports of `apex` and `pynvml` to stand-ins, where these are not installed.

PT_HPU_CONVERT_FP16_TO_BF16_FOR_MIGRATION=1 takes bfloat16 where a script asks for float16. GPU_MIGRATION_LOG_LEVEL
writes what was mapped to a file (`call_log.py`). The toolkit that this stands for is closed: names and effects are
those that its documentation and its users tell.
"""

from __future__ import annotations

from .. import core as core
from . import amp, cuda_names, devices, distributed, stand_ins

_parts = (devices, cuda_names, amp, distributed, stand_ins)
for _part in _parts:
    _part.apply()
