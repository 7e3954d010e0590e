"""What both ways of a translation share."""
