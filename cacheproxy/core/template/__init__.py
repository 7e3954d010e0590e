"""Probes of a chat template, and conclusions from their answers."""
