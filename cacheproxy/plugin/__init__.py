"""Client packages: found, named, guarded, called."""
