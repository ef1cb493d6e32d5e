"""Running one case, and timing it."""
