"""Probes of a server besides clients' requests: its pages, its template, its counters."""
