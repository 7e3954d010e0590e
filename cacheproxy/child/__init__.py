"""Child processes: servers that end with their parent, and programs in our terminal."""
