"""Recorded exchanges as files: JSON lines and HAR."""
