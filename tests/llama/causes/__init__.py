"""Conversations whose last turn breaks, or does not, for a cause that is known beforehand.

``causes.py`` lists them, ``stage.py`` holds them with a real server behind a real proxy, and
``reading.py`` reads what the log, ``diagnose`` and ``diagnose --from`` name. The tests here run
them on llama.cpp; ``benchmarks/causes.py`` also on other servers.
"""
