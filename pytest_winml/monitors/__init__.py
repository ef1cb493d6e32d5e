"""What is learnt of an inference while it runs: one module for each source of it."""
