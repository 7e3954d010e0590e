"""Dockerfile and compose.yaml: linted, and looked at as far as that goes without an engine."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cacheproxy.sources import load
from tests.proxy.harness import Proxy, Upstream, environment, whole

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions():
    """(word, rest) of each instruction, continued lines joined, comments left out."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.strip().startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def last(word):
    return next(rest for name, rest in reversed(instructions()) if name == word)


@pytest.mark.slow
def test_hadolint_has_nothing_to_say():
    program = shutil.which(
        "hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    )
    if program is None:
        pytest.skip("there is no hadolint here")
    result = subprocess.run(
        [program, str(ROOT / "Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (result.returncode, result.stdout) == (0, "")


def test_the_image():
    bases = [rest.split()[0] for name, rest in instructions() if name == "FROM"]
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base) for base in bases)
    assert len(set(bases)) == 1
    assert last("USER").isdecimal()
    assert int(last("USER")) > 0
    assert last("EXPOSE") == "8081"
    assert last("ENTRYPOINT") == '["cacheproxy"]'
    assert last("CMD") == '["serve"]'
    assert last("STOPSIGNAL") == "SIGTERM"
    assert not re.search(r"(?i)^\s*(ARG|ENV).*(token|secret|key)\b.*=", DOCKERFILE, re.MULTILINE)
    assert not re.search(r"\bADD\b|https?://(?!HOST)", DOCKERFILE)


def test_its_packages_are_pinned():
    """All that the proxy needs, directly or not, at versions that setup.cfg allows."""
    assert "--constraint constraints.txt" in DOCKERFILE
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    needed = required("cacheproxy-llm")
    assert {name for name, _ in needed} <= pins.keys()
    for name, versions in needed:
        assert versions.contains(pins[name]), name


def required(name, extras=("",)):
    """(Name, versions) of what a distribution requires, directly or not, as it is installed."""
    needs, seen, left = set(), set(), [(name, extras)]
    while left:
        name, extras = left.pop()
        for line in requires(name) or ():
            one = Requirement(line)
            if one.marker is not None and not any(map(one.marker.evaluate, map(_extra, extras))):
                continue
            needs.add((canonicalize_name(one.name), one.specifier))
            further = one.name, (*sorted(one.extras), "")
            if further not in seen:
                seen.add(further)
                left.append(further)
    return needs


def _extra(name):
    return {"extra": name}


def test_what_is_copied_is_there_and_not_ignored():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source}" in ignored, source


def image_environment():
    """What the image sets of our own variables."""
    words = [rest for name, rest in instructions() if name == "ENV"]
    pairs = [word.split("=", 1) for rest in words for word in rest.split()]
    return {name: value for name, value in pairs if name.startswith("CACHEPROXY_")}


def test_its_settings_are_settings():
    found = load({}, image_environment(), os.devnull)
    assert (found.interface, found.port) == ("0.0.0.0", int(last("EXPOSE")))


@pytest.mark.slow
def test_it_does_not_start_without_a_token(tmp_path):
    settings = image_environment() | {"CACHEPROXY_PORT": "0", "CACHEPROXY_STATE_DIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-P", "-m", "cacheproxy", "serve"],
        env=environment(tmp_path, **settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 2
    assert "CACHEPROXY_TOKEN" in result.stderr


@pytest.mark.slow
def test_the_health_check_tells_a_proxy_from_nothing(tmp_path):
    check = re.search(r'CMD \["python", "-P", "-m", "([\w.]+)"\]', last("HEALTHCHECK"))
    upstream = Upstream()
    upstream.reset(lambda peer, _: peer.send(whole(b"{}")))

    def healthy(port, token):
        settings = {"CACHEPROXY_PORT": str(port), "CACHEPROXY_TOKEN": token}
        result = subprocess.run(
            [sys.executable, "-P", "-m", check[1]],
            env=environment(tmp_path, **settings),
            capture_output=True,
            check=False,
            timeout=120,
        )
        return result.returncode

    with Proxy(tmp_path, "--upstream", upstream.url, CACHEPROXY_TOKEN="sesame") as proxy:
        port = proxy.address[1]
        assert healthy(port, "sesame") == 0
        assert healthy(port, "other") == 1
    assert healthy(port, "sesame") == 1
    upstream.close()


def compose():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def test_compose_services_find_each_other():
    """By their names; images have versions; volumes are declared."""
    found = compose()
    services = found["services"]
    proxy, server = services["cacheproxy"], services["llama-server"]
    upstream = proxy["environment"]["CACHEPROXY_UPSTREAM"]
    name, port = re.fullmatch(r"http://([\w-]+):(\d+)", upstream).groups()
    assert services[name] is server
    assert server["command"][server["command"].index("--port") + 1] == port
    assert port in server["expose"]
    assert "ports" not in server  # the model server itself is reached by nobody else
    assert set(proxy["depends_on"]) <= set(services)
    for service in services.values():
        assert re.search(r":[\w.${}:-]*\d", service["image"])
        for volume in service.get("volumes", ()):
            source = volume.rsplit(":/", 1)[0]
            assert source.startswith(("./", "${")) or source in found["volumes"]


def test_compose_asks_for_a_token():
    proxy = compose()["services"]["cacheproxy"]
    assert proxy["environment"]["CACHEPROXY_TOKEN"].startswith("${CACHEPROXY_TOKEN:?")
    assert all(port.startswith("127.0.0.1:") for port in proxy["ports"])
    assert proxy["read_only"] is True
    assert proxy["cap_drop"] == ["ALL"]
    settings = {
        name: value for name, value in proxy["environment"].items() if name != "CACHEPROXY_TOKEN"
    }
    found = load({}, settings, os.devnull)
    assert found.allow_host == ("cacheproxy",)
    grace = int(proxy["stop_grace_period"].removesuffix("s"))
    assert grace > found.grace
