"""Switches of passes of the bridge's graph compiler.

The passes change how a graph is written for the card's own compiler, never its results. The emulated card's compiler
has passes of its own, so a switch is remembered and nothing else happens.
"""

from __future__ import annotations

from collections.abc import Callable

from device import flags

switched: dict[str, bool] = {}
"""What was switched, by name."""


def _switch(name: str) -> Callable[[bool], None]:
    def switch(flag: bool) -> None:
        switched[name] = bool(flag)

    switch.__name__ = switch.__qualname__ = f"_enable_{name}"
    switch.__doc__ = f"Remember whether the pass {name} is wanted."
    return switch


_enable_eliminate_common_subexpression = _switch("eliminate_common_subexpression")
_enable_eliminate_dead_code = _switch("eliminate_dead_code")
_enable_constant_pooling = _switch("constant_pooling")
_enable_peephole_optimization = _switch("peephole_optimization")
_enable_fuse_t_mm_optimization = _switch("fuse_t_mm_optimization")
_enable_fuse_bn_relu_optimization = _switch("fuse_bn_relu_optimization")
_enable_bn_param_recalculation = _switch("bn_param_recalculation")
_enable_fuse_conv_bn_optimization = _switch("fuse_conv_bn_optimization")
_enable_permute_pass = _switch("permute_pass")
_enable_replace_inplace_ops = _switch("replace_inplace_ops")
_enable_replace_views = _switch("replace_views")


def _is_enabled_weight_permute_pass() -> bool:
    """Whether the bridge permutes weights itself: never."""
    return False


def _is_enabled_synapse_layout_handling() -> bool:
    """Whether the card's compiler chooses layouts: always."""
    return True


def _is_enabled_lazy_collectives() -> bool:
    """Whether collectives are recorded in the graph (PT_HPU_ENABLE_LAZY_COLLECTIVES)."""
    return bool(flags.get("PT_HPU_ENABLE_LAZY_COLLECTIVES"))
