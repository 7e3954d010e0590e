"""A JSON text with the places of its values, and edits spliced into it."""
