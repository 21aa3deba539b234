"""What is printed around the results: header, attributes, exit."""

from __future__ import annotations

import click

from .catalogue import TESTS
from .checks import Request

ATTRIBUTES = (
    *("clean", "list_tests", "timeout", "doc", "nranks", "ranks_per_node", "scaleup_group_size", "node_id", "mpi"),
    *("test", "measure", "size", "size_range", "size_range_inc", "loop", "test_root", "ranks_list", "data_type"),
    *("custom_comm", "same_buffers", "no_correctness", "reduction_op", "scaleout_bw", "result_csv"),
    *("ignore_mpi_errors", "no_color", "data_csv"),
)
"""In the order in which the real program shows them."""


class Voice:
    """Prints in colour, where that is wanted and standard output is a terminal."""

    def __init__(self, has_color: bool) -> None:
        self._color = None if has_color else False

    def say(self, text: str, color: str | None = None, underline: bool = False) -> None:
        """A line, or several."""
        click.secho(text, fg=color, underline=underline or None, color=self._color)

    def header(self, request: Request) -> None:
        """What a run begins with."""
        self.say("Welcome to HCCL demo", "magenta", underline=True)
        self.say("\nSetting HCCL demo attributes:", "cyan")
        for name in ATTRIBUTES:
            self.say(f"{name.ljust(20)} = {getattr(request, name)}", "cyan")

    def tests(self, request: Request) -> None:
        """The list of tests."""
        self.header(request)
        self.say("\nTests list:", "yellow")
        for test in TESTS:
            self.say(test, "yellow")
        self.leave(0)

    def leave(self, status: int, error: str = "") -> int:
        """What a run ends with where it does not just end; its status."""
        if error:
            self.say(f"HCCL demo error: {error}", "red")
        self.say(f"\nExiting HCCL demo with code: {status}", "red" if status else "green")
        return status
