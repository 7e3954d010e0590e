"""The APIs that clients and servers speak: a module for each, with one ``Dialect`` value."""
