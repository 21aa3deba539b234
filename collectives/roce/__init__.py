"""Time of collectives on the RoCE fabric: boxes, links and the algorithms that run over them."""
