"""One exchange: a request and its answer, from the buffered request to the last byte."""
