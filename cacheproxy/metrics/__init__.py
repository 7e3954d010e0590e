"""Counters, gauges and histograms for Prometheus."""
