"""Per-example gradients, their norms and clipped sums in one vectorised run."""
