"""Shared by tests/ and benchmarks/: pytester drives the plugin through real pytest runs."""

pytest_plugins = ["pytester"]
