"""Earlier reasoning: what a template is asked, and what it is given back."""
