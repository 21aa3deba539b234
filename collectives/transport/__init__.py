"""How ranks of one machine reach each other: shared memory for data, ZeroMQ for control."""
