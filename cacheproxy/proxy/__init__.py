"""The relay of requests and answers between clients and model servers, with Twisted."""
