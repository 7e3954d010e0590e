"""The verdict on a turn: compared, explained, with proof, and what can be done."""
