"""Client setup: the settings with which each coding agent uses the proxy."""
