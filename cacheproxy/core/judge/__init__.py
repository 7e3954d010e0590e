"""The verdict on a turn: comparison, cause, proof, explanation and advice."""
