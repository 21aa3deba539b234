"""Options for what joins the cards, each with an environment variable, which the fabric's model reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

VARIABLES = {
    "fabric": "HPUCLUSTER_FABRIC",
    "links": "HPUCLUSTER_LINKS",
    "algorithm": "HPUCLUSTER_ALGORITHM",
}
"""Environment variable of each option."""

_HELP = {
    "fabric": ("NAME|FILE.toml", "What joins the boxes: one-box, leaf, leaf-spine, ..., or a file of your own."),
    "links": ("STATES", "States of links: 3:8=down,0:*=0.5 (rank:port); see docs/fabric.md."),
    "algorithm": ("NAME", "auto, direct, hierarchical, ring or halving_doubling."),
}


def network_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --fabric, --links and --algorithm."""
    for name in reversed(VARIABLES):
        metavar, text = _HELP[name]
        command = click.option(f"--{name}", metavar=metavar, help=text)(command)
    return command


def to_environment(options: dict[str, Any]) -> dict[str, str]:
    """Takes the three options out of `options`; variables for those that were given, which are set here, too."""
    given = {VARIABLES[name]: value for name in VARIABLES if (value := options.pop(name)) is not None}
    os.environ.update(given)
    return given
