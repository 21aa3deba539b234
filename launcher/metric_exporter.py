"""`habana-metric-exporter`: Prometheus metrics of the machine's cards, whatever started their processes."""

from __future__ import annotations

import errno
import threading

import click
from prometheus_client import CollectorRegistry

from device.board import firmware_of
from device.environment import software_version
from hpucluster.exporter_names import ExporterCollector
from hpucluster.metrics_server import DEFAULT_PORT, MetricsServer
from hpucluster.placement import LOOPBACK

from .console_script import run
from .machine_cards import MachineCards
from .messages import UserError
from .ports import problem

NAME = "habana-metric-exporter"

EPILOG = f"""\b
Examples:
  {NAME} &
  curl -s http://127.0.0.1:{DEFAULT_PORT}/metrics | grep utilization
  promtool check config configs/prometheus/prometheus.yml   which scrapes it
\b
The cards are emulated. Every card of the box has its series, idle or held by
a process: plain python, torchrun, mpirun, Ray, deepspeed or hpurun. Figures
are at most about a second old. Power, temperature and utilization are
modelled, and those of late; energy and PCIe bytes count on when a process
ends. A running hpurun serves metrics of its job itself, with more names; it
goes without where its port, the same, is taken: see hpurun --metrics-port.
\b
Environment variables:
  HPUCLUSTER_CARD         kind of the idle box: gaudi, gaudi2 (default), gaudi3
  HPUCLUSTER_SOFTWARE     release of the software, default 1.19.0
  HPUCLUSTER_FABRIC,
  HPUCLUSTER_LINKS        network of the cards that no process group has,
                          see docs/fabric.md
  HABANA_VISIBLE_DEVICES  show these cards only, as in a container
  HPUCLUSTER_CARD_RECORDS folder in which processes tell of their cards,
                          default /dev/shm/hpucluster-cards
\b
Exit status: 2 for a mistake on the command line; 130 after Ctrl-C."""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to serve on; 0: any free one.",
)
@click.option("--host", default=LOOPBACK, show_default=True, metavar="ADDRESS", help="Address; 0.0.0.0: for all.")
def command(port: int, host: str) -> None:
    """Serve Prometheus metrics of this machine's Gaudi cards at /metrics, under the Gaudi exporter's names."""
    cards = MachineCards(firmware_of(software_version()))
    if not cards.look():  # also finds what is wrong with the environment
        raise UserError("no card is visible (HABANA_VISIBLE_DEVICES=none); name cards, or use 'all'")
    registry = CollectorRegistry()
    registry.register(ExporterCollector(cards.look))
    with _serve(port, registry, host) as server:
        click.echo(f"{NAME}: serving http://{host}:{server.port}/metrics (Ctrl-C ends)")
        threading.Event().wait()


def _serve(port: int, registry: CollectorRegistry, host: str) -> MetricsServer:
    if not host.strip():
        raise UserError(f"--host {host!r}: is no address; use {LOOPBACK}, or 0.0.0.0 for all of this machine's")
    try:
        return MetricsServer(port, registry, host)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            text = f"--port {port}: {problem(port, error)}; choose another, or --port 0 for any free one"
        else:
            text = f"--host {host}: {problem(port, error)}; give an address of this machine, such as {LOOPBACK}"
        raise UserError(text) from error
    except UnicodeError as error:  # no host name: a part of it is empty or too long
        raise UserError(f"--host {host}: is no host name; give an address such as {LOOPBACK}") from error


def main() -> None:
    """Console script."""
    run(command, NAME)


if __name__ == "__main__":
    main()
