"""Adaptations: what a server cannot take, and what is sent instead."""
