"""The parts of the side-by-side benchmark."""
