"""What stays: one row per exchange without its content, and what they add up to.

In one SQLite file of the state directory, which one thread of its own writes and reads.
"""
