# The proxy with the client packages of this repository:
#   docker build -t cacheproxy .
#   docker run -e CACHEPROXY_TOKEN=SECRET -e CACHEPROXY_UPSTREAM=http://HOST:8080 \
#     -p 127.0.0.1:8081:8081 cacheproxy
FROM python:3.13.9-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml setup.cfg constraints.txt README.md LICENSE ./
COPY twisted twisted
COPY clients clients
COPY cacheproxy cacheproxy
# The same packages in each build: constraints.txt pins all of them, setup.cfg has the oldest that work.
RUN python -m venv /opt/cacheproxy \
    && /opt/cacheproxy/bin/pip install --no-cache-dir --constraint constraints.txt . ./clients/* \
    # Twisted's list of its plugins: who runs it later may not write it
    && /opt/cacheproxy/bin/twistd --help > /dev/null

FROM python:3.13.9-slim-bookworm
RUN useradd --uid 10001 --create-home cacheproxy \
    && install --directory --owner cacheproxy --mode 0700 /var/lib/cacheproxy
COPY --from=build /opt/cacheproxy /opt/cacheproxy
USER 10001
WORKDIR /var/lib/cacheproxy
# In a container, others are meant to reach it: it does not start without CACHEPROXY_TOKEN.
ENV PATH=/opt/cacheproxy/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    CACHEPROXY_INTERFACE=0.0.0.0 \
    CACHEPROXY_STATE_DIR=/var/lib/cacheproxy
EXPOSE 8081
HEALTHCHECK --interval=30s --timeout=10s --start-period=10s \
    CMD ["python", "-P", "-m", "cacheproxy.cli.healthy"]
STOPSIGNAL SIGTERM
# Other commands: docker run IMAGE doctor …
ENTRYPOINT ["cacheproxy"]
CMD ["serve"]
