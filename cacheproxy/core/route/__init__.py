"""The choice of a conversation's upstream."""
