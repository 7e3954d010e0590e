"""Late system messages: what a server does with them, and how they are placed."""
