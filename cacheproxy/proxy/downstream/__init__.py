"""The client's side: connections, requests, limits, errors."""
