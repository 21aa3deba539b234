"""Collectives of groups whose ranks are on several machines: shared memory within each, the wire between them."""
