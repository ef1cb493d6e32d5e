"""What is written to disk: atomically, with a schema version, readable by the next version."""
