"""What is remembered of conversations."""
