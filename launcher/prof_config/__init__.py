"""`hl-prof-config`: the profiler's settings, on the command line and interactively."""
