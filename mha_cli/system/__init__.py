"""The machine: memory, processor, limits, threads; files written whole or not at all; the progress of long work."""
