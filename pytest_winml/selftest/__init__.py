"""The harness tested by itself: comparisons of a thing with itself, and with itself made slower."""
