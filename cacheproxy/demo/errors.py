"""What can go wrong for a user of the demo."""

from cacheproxy.replay.errors import ReplayError as DemoError

__all__ = ["DemoError"]
