"""Recurrent cells that PyTorch hands to a device as one operator, spelled out in ordinary operators.

For LSTM and GRU PyTorch takes the CPU path only for CPU tensors; a device must bring the fused forward and backward.
`workspace` is what the forward keeps for the backward.
"""

from __future__ import annotations

import torch
from torch import Tensor

Gradients = tuple[Tensor, ...]


def _with_bias(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(hy, cy, workspace) for gates of shape (batch, 4 hidden) in the order input, forget, cell, output."""
    gates = _with_bias(input_gates, input_bias) + _with_bias(hidden_gates, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> Gradients:
    """(grad of gates, grad of cx, grad of bias) from the gradients of hy and cy, either of which may be missing."""
    if grad_hy is None and grad_cy is None:
        return ()
    i, f, g, o = workspace.chunk(4, 1)
    squashed = cy.tanh()
    grad_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    grad_cell = grad_hy * o * (1 - squashed * squashed)
    if grad_cy is not None:
        grad_cell = grad_cell + grad_cy
    grad_gates = torch.cat(
        [
            grad_cell * g * i * (1 - i),
            grad_cell * cx * f * (1 - f),
            grad_cell * i * (1 - g * g),
            grad_hy * squashed * o * (1 - o),
        ],
        1,
    )
    grad_bias = grad_gates.sum(0) if has_bias else torch.empty(0, device=cy.device, dtype=cy.dtype)
    return grad_gates, grad_cell * f, grad_bias


def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(hy, workspace) for gates of shape (batch, 3 hidden) in the order reset, update, new."""
    ir, iz, inew = _with_bias(input_gates, input_bias).chunk(3, 1)
    hr, hz, hnew = _with_bias(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (hr + ir).sigmoid(), (hz + iz).sigmoid()
    n = (inew + r * hnew).tanh()
    return (hx - n) * z + n, torch.cat([r, z, n, hx, hnew], 1)


def gru_cell_backward(grad_hy: Tensor, workspace: Tensor, has_bias: bool) -> Gradients:
    """(grad of input gates, of hidden gates, of hx, of input bias, of hidden bias)."""
    r, z, n, hx, hnew = workspace.chunk(5, 1)
    grad_z = grad_hy * (hx - n) * z * (1 - z)
    grad_n = grad_hy * (1 - z) * (1 - n * n)
    grad_r = grad_n * hnew * r * (1 - r)
    grad_input = torch.cat([grad_r, grad_z, grad_n], 1)
    grad_hidden = torch.cat([grad_r, grad_z, grad_n * r], 1)
    none = torch.empty(0, device=hx.device, dtype=hx.dtype)
    biases = (grad_input.sum(0), grad_hidden.sum(0)) if has_bias else (none, none)
    return grad_input, grad_hidden, grad_hy * z, *biases


def register() -> torch.library.Library:
    """Install the cells for hpu; the library must be kept alive."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("_thnn_fused_lstm_cell", lstm_cell, "PrivateUse1")
    library.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward, "PrivateUse1")
    library.impl("_thnn_fused_gru_cell", gru_cell, "PrivateUse1")
    library.impl("_thnn_fused_gru_cell_backward", gru_cell_backward, "PrivateUse1")
    return library
