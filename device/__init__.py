"""One emulated card: the torch `hpu` device, its compiler, recipes, engines, memory and clock."""
