"""What each coding agent has to be told to use the proxy."""
