"""From a model and a recipe to an artifact."""
