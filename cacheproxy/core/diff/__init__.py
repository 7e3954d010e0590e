"""What differs between two texts, two values, two requests."""
