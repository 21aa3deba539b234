"""From a recorded graph to a recipe: engine nodes, their cost, memory and place in time."""
