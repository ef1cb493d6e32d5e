"""Judging times: numbers in, numbers out. Nothing here knows a device, a file or a clock."""
