"""Finding, naming, guarding and calling plugins: client packages, and files of the user's."""
