"""The version is that of the emulated software: HPUCLUSTER_SOFTWARE as it is when this is installed, default 1.19.0."""

import os

from setuptools import setup

setup(version=os.environ.get("HPUCLUSTER_SOFTWARE") or "1.19.0")
