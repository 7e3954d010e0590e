"""A real browser before the real proxy before the real llama.cpp server."""

import contextlib
import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model

from tests import needs
from tests.proxy.harness import TIMEOUT, Proxy, Upstream, whole

ARTIFACTS = "TEST_ARTIFACTS"
"""Names the folder for screenshots, one of each state."""
ROOT = Path(__file__).parents[2]
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
"""Without a screen, as root, and without a word to anybody else."""
CANARY = "<img src=x onerror=window.hit=1>"
WORDS = "of or in is to for and the not if "


@pytest.fixture(scope="package")
def browser():
    """Debian's Chromium. Its event loop runs in this thread, so it ends with these tests."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = needs.program("chromium", "chromium-browser")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def model(tmp_path_factory):
    needs.llama()
    return write_model(tmp_path_factory.mktemp("browser") / "tiny.gguf", text=WORDS * 30)


@pytest.fixture(scope="package")
def llama(model):
    """A server that is called by a canary."""
    with LlamaServer(model, n_ctx=8192, n_parallel=2, model_alias=[CANARY]) as server:
        yield server


@pytest.fixture
def fresh(llama, tmp_path):
    """A proxy nobody has used yet, with the client packages that are installed."""
    with started(llama.url, tmp_path, CACHEPROXY_BLOCK="") as proxy:
        yield proxy


@pytest.fixture
def upstream():
    """One that takes no time, and finds everything in its cache."""
    usage = {"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 80}}
    answer = json.dumps({"choices": [], "usage": usage}).encode()
    upstream = Upstream()
    upstream.reset(lambda peer, _: peer.send(whole(answer, b"Content-Type: application/json")))
    yield upstream
    upstream.close()


@pytest.fixture
def quick(upstream, tmp_path):
    """A proxy before that."""
    with started(upstream.url, tmp_path) as proxy:
        yield proxy


@pytest.fixture(scope="package")
def used(llama, tmp_path_factory):
    """A proxy that has seen a conversation, a break, canaries, and an error."""
    with started(llama.url, tmp_path_factory.mktemp("used")) as proxy:
        said = []
        for number in range(4):
            said.append({"role": "user", "content": f"{WORDS * 20} {number}"})
            ask(proxy, said, session="s1")
            said.append({"role": "assistant", "content": WORDS})
        said[0]["content"] = "today is 2026-11-21 " + said[0]["content"]
        ask(proxy, said[:-1], session="s1")
        ask(proxy, [{"role": "user", "content": CANARY}], session=CANARY, client=f"x{CANARY}")
        assert ask(proxy, "nonsense", session="s3", client="clumsy/1") == 400
        yield proxy
        assert "Traceback" not in proxy.output


@contextlib.contextmanager
def started(upstream, folder, *arguments, **environ):
    """A proxy that keeps totals and looks at its upstream every half second.

    ``upstream``: "" where a config file names several.
    """
    options = ["--state-dir", str(folder / "state"), "--poll", "0.5"]
    options += ["--upstream", upstream] if upstream else []
    with Proxy(folder, *options, *arguments, **environ) as proxy:
        yield proxy


def ask(proxy, messages, *, session, client="agent/1", model=CANARY):
    """Send a request, and return the status of its answer."""
    body = {"model": model, "messages": messages, "max_tokens": 4}
    headers = {"Content-Type": "application/json", "User-Agent": client, "X-Session-Id": session}
    request = urllib.request.Request(
        proxy.url + "/v1/chat/completions", json.dumps(body).encode(), headers
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=120) as response:
            response.read()
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


class Visit:
    """A page in a window of its own; nothing may be complained of, or asked for elsewhere."""

    def __init__(self, browser, url, *, width=1280, scheme="light", path="/_cacheproxy/"):
        self.complaints = []
        self.expected = "\0"
        self._context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        self.page = self._context.new_page()
        self.page.set_default_timeout(1000 * TIMEOUT)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url, url))
        self.page.goto(url + path)

    def _heard(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, target, url):
        if not target.startswith(url + "/_cacheproxy/"):
            self.complaints.append(f"asked for {target}")

    def rows(self):
        """The texts of the table's rows, the latest first."""
        return self.page.locator("#rows tr").all_inner_texts()

    def until(self, condition):
        """Wait until ``condition()`` holds."""
        started = time.monotonic()
        while not condition():
            assert time.monotonic() - started < TIMEOUT, "it did not happen"
            self.page.wait_for_timeout(20)

    def axe(self):
        """What axe-core finds wrong: rules with the nodes that break them."""
        api = pytest.importorskip("axe_playwright_python.sync_playwright")
        found = api.Axe().run(self.page).response["violations"]
        return [(each["id"], [node["html"][:90] for node in each["nodes"]]) for each in found]

    def sideways(self):
        """Pixels by which the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - innerWidth")

    def look(self, view, shown):
        """Go to a view by its link, and wait until there is something in it."""
        self.page.evaluate("hash => { location.hash = hash; }", f"#/{view}")
        self.page.wait_for_selector(shown)

    def shoot(self, name):
        """Keep a picture of the whole page."""
        folder = Path(os.environ.get(ARTIFACTS) or ROOT / "test-artifacts")
        folder.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(folder / f"{name}.png"), full_page=True)

    def close(self):
        """Close the window: before its proxy ends, which it would complain of."""
        if self._context is not None:
            self._context.close()
            self._context = None


@pytest.fixture
def visit(browser):
    """Open the dashboard at a proxy's URL."""
    visits = []

    def visit(url, **more):
        visits.append(Visit(browser, url, **more))
        return visits[-1]

    yield visit
    for each in visits:
        each.close()
    told = [text for each in visits for text in each.complaints if each.expected not in text]
    assert told == []
