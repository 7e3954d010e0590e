"""One request and its response, from the buffered request to the last byte."""
