"""What can go wrong for a user of a command that sends requests."""


class ReplayError(Exception):
    """It cannot go on; the message is one line that says what is wrong and what mends it."""
