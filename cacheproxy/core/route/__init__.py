"""Which upstream a conversation goes to."""
