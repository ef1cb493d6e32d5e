"""Pure rendering: records in, lines out."""
