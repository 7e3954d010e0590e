"""What a request means: values and functions, no I/O, no clock, no Twisted."""
