"""What a chat template is asked, and what its answers tell."""
