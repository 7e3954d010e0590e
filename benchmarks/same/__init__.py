"""What two trees do with the same captures: see ``compare_trees.py``."""
