"""How ranks reach each other: shared memory and Unix sockets inside a machine, the network between machines."""
