"""The inspection of recorded conversations: changes, causes of breaks, and rules that cure them."""
