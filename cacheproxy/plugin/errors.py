"""What is wrong with plugins."""

from __future__ import annotations


class PluginError(ValueError):
    """A plugin that cannot work, or cannot work with the others, or a rule name nobody has.

    ``function``: the function of the plugin that is at fault, None if none is.
    """

    def __init__(self, message: str, function: object = None) -> None:
        super().__init__(message)
        self.function = function
