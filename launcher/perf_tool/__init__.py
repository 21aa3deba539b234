"""`habana_perf_tool`: where the time of a trace went, and what to do about it."""
