"""Who may ask, which values are secret, and how they are taken out."""
