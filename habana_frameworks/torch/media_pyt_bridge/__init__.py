"""Names of the bridge between the media pipeline and PyTorch's tensors."""

from __future__ import annotations

from ..._unavailable import function

_FEATURE = "habana_frameworks.torch.media_pyt_bridge"
_ALTERNATIVE = "use torch.utils.data.DataLoader; Tensor.to('hpu', non_blocking=True) copies its batches to the card"

CreatePytMediaProxy = function(_FEATURE, _ALTERNATIVE)
GetOutputTensor = function(_FEATURE, _ALTERNATIVE)
RegisterMediaDeleter = function(_FEATURE, _ALTERNATIVE)

__all__ = ["CreatePytMediaProxy", "GetOutputTensor", "RegisterMediaDeleter"]
