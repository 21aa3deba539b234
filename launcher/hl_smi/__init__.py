"""`hl-smi`: the system management tool of the cards, answered from what this machine's processes hold."""
