"""What can go wrong for a user of the demo."""


class DemoError(Exception):
    """The demo cannot go on; the message is one line that says what is wrong and what mends it."""
