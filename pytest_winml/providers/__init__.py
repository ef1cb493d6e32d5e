"""Execution providers and devices: what is installed, what registers, and how a target binds to it."""
