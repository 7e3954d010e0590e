"""The model server's side: connections, requests, responses."""
