"""Names of the steps of PT2E quantization; see `quantizer` for why they refuse."""

from __future__ import annotations

from .quantizer import _refusing

__all__ = ["convert_pt2e", "export", "load_pt2e", "prepare_pt2e", "save_pt2e"]

export = _refusing("export")
prepare_pt2e = _refusing("prepare_pt2e")
convert_pt2e = _refusing("convert_pt2e")
save_pt2e = _refusing("save_pt2e")
load_pt2e = _refusing("load_pt2e")
