"""Questions to a chat template, and what its answers show."""
