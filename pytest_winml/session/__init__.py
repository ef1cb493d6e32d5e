"""Sessions: opened by device in a worker process, with their placement proven, reached through a proxy."""
