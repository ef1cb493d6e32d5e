"""Is this machine what it seems? Every target is tried with a real model before anything is claimed of it."""
