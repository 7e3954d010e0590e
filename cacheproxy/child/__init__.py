"""Servers in processes of their own, which die with whoever started them."""
