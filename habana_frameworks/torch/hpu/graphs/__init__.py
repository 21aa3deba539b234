"""HPU graphs: a piece of work captured once, and then run again and again at the price of one launch."""

from __future__ import annotations

from device.hpu_graph import HPUGraph, graph, is_current_stream_capturing

from .containers import TensorPacker, copy_to, extract_tensors, get_user_input_tensor_list
from .graph_model import GraphModel
from .graphed_callables import make_graphed_callables
from .input_key import input_hash
from .module_cacher import ModuleCacher
from .wrapped_forward import CachedParams, wrap_in_hpu_graph, wrap_in_hpu_graph_func, wrapped_hpugraph_forward

__all__ = [
    "CachedParams",
    "GraphModel",
    "HPUGraph",
    "ModuleCacher",
    "TensorPacker",
    "copy_to",
    "extract_tensors",
    "get_user_input_tensor_list",
    "graph",
    "input_hash",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "wrap_in_hpu_graph",
    "wrap_in_hpu_graph_func",
    "wrapped_hpugraph_forward",
]
