"""Which runs? Recipes, sweeps, what they will take."""
