"""Switches of `hpu_backend`. Each starts with an environment variable's value; `torch.compile(options={...})` sets some
for one function, `configuration_flags["name"] = value` for all that are compiled later.

Without effect on an emulated card, where there is one way to do what they choose between: use_graph_freezing,
discard_frozen_params, use_inplace_allreduce, use_inplace_index_copy, enable_sfg, use_cpp_partitioner, reinplace_add,
reassign_full_copy, reassign_copy_, use_boxed_input.
"""

from __future__ import annotations

import os
import sys

from torch.utils._config_module import install_config_module

from device import environment, errors


def _decomposition_mode() -> str:
    variable = "PT_HPU_COMPILE_DECOMPOSITION_MODE"
    mode = os.environ.get(variable, "").lower() or "habana"
    if mode not in ("habana", "core_aten", "none"):
        raise errors.ConfigurationError(f"{variable}={mode!r} is not a mode; use habana, core_aten or none")
    return mode


use_compiled_recipes: bool = environment.flag("PT_HPU_COMPILE_USE_RECIPES", True)
decomposition_mode: str = _decomposition_mode()
keep_input_mutations: bool = environment.flag("PT_HPU_KEEP_INPUT_MUTATIONS", True)
use_eager_fallback: bool = environment.flag("PT_HPU_USE_EAGER_FALLBACK", True)
use_graph_freezing: bool = environment.flag("PT_HPU_COMPILE_GRAPH_FREEZE", False)
discard_frozen_params: bool = environment.flag("PT_HPU_COMPILE_DISCARD_FROZEN_PARAMS", False)
remove_unnecessary_clones: bool = environment.flag("PT_HPU_COMPILE_REMOVE_UNNECESSARY_CLONES", True)
use_inplace_allreduce: bool = environment.flag("PT_HPU_USE_INPLACE_COLLECTIVE", True)
use_inplace_index_copy: bool = environment.flag("PT_HPU_USE_INPLACE_INDEX_COPY", True)
inference: bool = environment.flag("PT_HPU_USE_INFERENCE_COMPILER", True)
enable_sfg: bool = environment.flag("PT_HPU_ENABLE_SFG", False)
use_cpp_partitioner: bool = environment.flag("PT_HPU_USE_CPP_PARTITIONER", True)
enable_allreduce_graph_split: bool = environment.flag("PT_HPU_ENABLE_ALLREDUCE_GRAPH_SPLIT", True)
force_static_compile: bool = environment.flag("PT_HPU_FORCE_STATIC_COMPILE", False)
reinplace_add: bool = environment.flag("PT_HPU_REINPLACE_ADD", True)
reassign_full_copy: bool = environment.flag("PT_HPU_REASSIGN_FULL_COPY", True)
reassign_copy_: bool = environment.flag("PT_HPU_REASSIGN_COPY_", True)
use_boxed_input: bool = environment.flag("PT_HPU_USE_BOXED_INPUT", True)

del annotations  # PyTorch takes every name that is left for a switch
install_config_module(sys.modules[__name__])


class _Flags:
    """The switches by name."""

    def __getitem__(self, name: str) -> object:
        return getattr(sys.modules[__name__], name)

    def __setitem__(self, name: str, value: object) -> None:
        setattr(sys.modules[__name__], name, value)


configuration_flags = _Flags()
