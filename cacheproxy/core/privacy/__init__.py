"""Privacy: access control, and secret values with their removal."""
