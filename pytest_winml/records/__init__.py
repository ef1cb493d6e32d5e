"""Frozen values and their JSON form. A value carries data and derived properties, never a session or a renderer."""
