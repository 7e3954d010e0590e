"""The totals: one row per exchange, without its content, and the sums of these rows.

They are in one SQLite file of the state directory. One thread writes and reads it.
"""
