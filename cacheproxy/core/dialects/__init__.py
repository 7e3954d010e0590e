"""The APIs that clients and servers speak: one module for each, with one value that knows it."""
