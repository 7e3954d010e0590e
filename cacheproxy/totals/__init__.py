"""What stays: one row per exchange without its content, the upstream's counters, lifetime totals.

In one SQLite file of the state directory, which one thread of its own writes and reads.
"""
