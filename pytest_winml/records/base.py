"""What every record has in common: frozen, and strict about unknown fields when read back."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value. Units stand in field names, sequences are tuples, and what can be derived is a property."""
