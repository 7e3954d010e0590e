"""The service: listening, reloading, the banner, signals."""
