"""Checks of what the user asked for, before anything is started. Each failure is a UserError."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path

import click

from collectives.roce.network import Network
from device.environment import read_settings
from device.errors import ConfigurationError
from device.modules import BOX_CARDS, visible_modules
from device.profiler.configuration import configuration_from_environment
from device.spec import CardSpec, load_card

from .figures import size
from .free_memory import available_memory
from .messages import UserError

RANK_BYTES = 250 * 2**20
"""What a rank takes before its script has any data: Python with PyTorch."""

SYNTAX_STATUS = 1
"""Exit status of a script that does not compile, as python's."""


def choose_modules(cards: int | None, environ: Mapping[str, str], cards_per_box: int = BOX_CARDS) -> list[int]:
    """The modules that the ranks get (`Job.modules`): the first `cards` of the visible ones, all where None. More than
    a box has, or than `cards_per_box`, spread over several boxes, unless the environment names the visible cards.
    """
    try:
        visible = visible_modules(environ)
    except ConfigurationError as error:
        raise UserError(str(error)) from error
    said = _said(environ)
    if not visible:
        raise UserError(
            f"no card is visible: {said}; unset it, or name cards: HABANA_VISIBLE_DEVICES=all, or a list: 0,1"
        )
    if cards is None:
        return visible
    if cards < 1:
        raise UserError(f"--cards {cards}: give a number of cards, 1 or more")
    if not said and cards > cards_per_box:
        check_memory(cards)
        return [BOX_CARDS * (rank // cards_per_box) + rank % cards_per_box for rank in range(cards)]
    if cards > len(visible):
        remedy = f"use --cards {len(visible)} or less"
        remedy += ", or name more cards in it"
        raise UserError(
            f"--cards {cards}: only {len(visible)} card{'s are' if len(visible) > 1 else ' is'} visible"
            f" ({said}); {remedy}"
        )
    return visible[:cards]


def check_memory(cards: int) -> None:
    """Check that this machine has room for so many processes, before they bring it down."""
    free = available_memory()
    if free is not None and cards * RANK_BYTES > free:
        raise UserError(
            f"--cards {cards}: as many processes take {size(cards * RANK_BYTES)} and more, and this machine has "
            f"{size(free)} free; use --cards {max(1, free // RANK_BYTES)} or less"
        )


def _said(environ: Mapping[str, str]) -> str:
    """The variable that limits the visible cards, as the user set it."""
    for variable in ("HABANA_VISIBLE_MODULES", "HABANA_VISIBLE_DEVICES"):
        if variable in environ:
            return f"{variable}={environ[variable]}"
    return ""


def choose_card(name: str) -> CardSpec:
    """The description of the card `name`."""
    try:
        return load_card(name)
    except ConfigurationError as error:
        raise UserError(f"--card {name}: {error}") from error


def choose_network(spec: CardSpec, ranks: int) -> Network:
    """What joins the cards: the variables HPUCLUSTER_FABRIC and its like."""
    try:
        return Network.of_environment(spec, ranks)
    except ConfigurationError as error:
        raise UserError(str(error)) from error


def check_environment() -> None:
    """Check the device's and the profiler's variables in this process's environment, and the file that they name: each
    rank would otherwise refuse them.
    """
    try:
        read_settings()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the ranks give them
            configuration_from_environment(os.environ)
    except ConfigurationError as error:
        raise UserError(str(error)) from error


def check_script(path: str) -> None:
    """Check that `path` is a Python script that compiles.

    A syntax error is printed as python prints it and exits with status 1, at once instead of once per rank.
    """
    if not os.path.exists(path):
        raise UserError(f"{path}: no such script; give the path of a Python file, or -m with a module's name")
    if os.path.isdir(path):
        raise UserError(f"{path}: is a directory; give the path of a Python file, such as {path.rstrip('/')}/train.py")
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}; check its permissions") from error
    try:
        compile(source, os.path.abspath(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        text = "".join(traceback.format_exception_only(type(error), error))
        click.echo(text, err=True, nl=False)
        raise click.exceptions.Exit(SYNTAX_STATUS) from error


def check_report(path: str) -> None:
    """Check that a report can be written at `path`."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise UserError(f"--report {path}: there is no folder {folder}; create it first (mkdir -p {folder})")
    if os.path.isdir(path):
        raise UserError(f"--report {path}: is a directory; give the name of a file in it")
    if not os.access(folder, os.W_OK):
        raise UserError(f"--report {path}: {folder} is not writable; choose another folder")
