"""The command line: `hpurun`."""
