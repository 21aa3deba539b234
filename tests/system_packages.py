"""Bring the Debian packages that the tests need; where that is not possible, say which are missing.

    python tests/system_packages.py

Installs with apt when run as root on a system that has it. Exits with 1 where something stays missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PROGRAMS = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "g++": "g++",
    "chromium": "chromium",
    "ip": "iproute2",
    "mpirun": "openmpi-bin",
}
"""Program -> Debian package."""


def missing() -> list[str]:
    return sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})


def install(packages: list[str]) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", *packages]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}", file=sys.stderr)
            return


def main() -> int:
    wanted = missing()
    if wanted and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"installing {', '.join(wanted)} ...")
        install(wanted)
        wanted = missing()
    if wanted:
        print(
            f"the tests need {', '.join(wanted)}: as root, run "
            f"'apt-get update && apt-get install -y {' '.join(wanted)}', or your system's counterpart",
            file=sys.stderr,
        )
        return 1
    print("everything that the tests need from the system is there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
