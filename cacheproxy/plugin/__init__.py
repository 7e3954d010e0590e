"""Plugins, which are client packages and the user's files: found, named, guarded and called."""
