"""The dashboard in a real browser: live, filtered, read by keyboard, in all its states."""

from __future__ import annotations

import threading

import pytest

from cacheproxy.embedded import LlamaServer
from tests.proxy.harness import CHUNKED, TIMEOUT, Upstream, whole

from .conftest import CANARY, WORDS, ask, started

CONTRAST = """() => {
  const parse = (text) => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility() || node.closest(".unseen, .skip, noscript")) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(parse(style.color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) poor.push([node.textContent.slice(0, 40), ratio]);
  }
  return poor;
}"""
NAMELESS = """() => [...document.querySelectorAll("button, input, table, section, [role=img]")]
  .filter((node) => node.checkVisibility())
  .filter((node) => !(node.ariaLabel || node.labels?.length || node.textContent.trim()
    && node.tagName === "BUTTON" || (node.getAttribute("aria-labelledby") || "").split(" ")
    .some((id) => document.getElementById(id)?.textContent.trim())))
  .map((node) => node.outerHTML.slice(0, 80))"""


def test_before_the_first_request_it_says_what_to_do(fresh, visit):
    """The lines for each client; the server is there."""
    page = visit(fresh.url)
    page.page.wait_for_selector("#empty:not([hidden])")
    text = page.page.inner_text("main")
    assert 'eval "$(cacheproxy env claude)" && claude' in text
    assert f"{fresh.url}/v1" in text
    assert "Requests" not in text
    assert page.page.evaluate(CONTRAST) == []
    page.shoot("empty")


def test_a_request_appears_by_itself(fresh, visit):
    """Of the real server, while the page is open; its first one, and the next."""
    page = visit(fresh.url)
    page.page.wait_for_selector("#empty:not([hidden])")
    for number in (1, 2):
        ask(fresh, [{"role": "user", "content": WORDS * 20 * number}], session=f"s{number}")
        page.until(lambda wanted=number: len(page.rows()) == wanted)
    assert page.rows()[0].startswith(page.page.inner_text("#rows tr:first-child button"))
    page.page.wait_for_selector("#verdict:not([hidden])")
    page.until(lambda: "%" in page.page.inner_text("#share"))


def test_a_prompt_that_is_evaluated_is_shown_until_it_is(visit, tmp_path):
    """By itself, also if it is the first; as text, whatever its client calls itself."""
    go_on = threading.Event()

    def script(peer, received):
        if not received.line.startswith(b"POST /v1/chat"):
            peer.send(whole(b"{}", status=b"404 Not Found"))
            return
        peer.send(CHUNKED)
        peer.chunk(b": keepalive 2048/11000\n\n")
        assert go_on.wait(TIMEOUT)
        peer.chunk(b"data: [DONE]\n\n")
        peer.send(b"0\r\n\r\n")

    upstream = Upstream()
    upstream.reset(script)
    said = [{"role": "user", "content": WORDS}]
    with started(upstream.url, tmp_path) as proxy:
        page = visit(proxy.url)
        asking = threading.Thread(target=ask, args=(proxy, said), kwargs={"session": "s1"})
        asking.start()
        shown = page.page.wait_for_selector("#prefills:not([hidden])")
        assert "prefill 2,048 of 11,000 tokens" in shown.inner_text()
        assert "agent/s1 #1" in shown.inner_text()
        assert page.page.evaluate(CONTRAST) == []
        assert page.sideways() == 0
        page.shoot("prefill")
        narrow = visit(proxy.url, width=360)
        narrow.page.wait_for_selector("#prefills:not([hidden])")
        assert narrow.sideways() == 0
        narrow.close()
        go_on.set()
        page.page.wait_for_selector("#prefills[hidden]", state="attached")
        asking.join(TIMEOUT)
        page.close()
    upstream.close()
    assert not upstream.errors


def test_what_it_says_is_what_the_server_said(visit, used):
    """The share of reused tokens, and the break with its reason."""
    page = visit(used.url)
    page.page.wait_for_selector("#rows tr")
    page.until(lambda: "%" in page.page.inner_text("#share"))
    reused, evaluated = (
        int(page.page.inner_text(place).replace(",", "")) for place in ("#reused", "#evaluated")
    )
    share = float(page.page.inner_text("#share").removesuffix(" %"))
    assert share == pytest.approx(100 * reused / (reused + evaluated), abs=0.06)
    assert "An earlier message changed" in page.page.inner_text("#breaks")
    assert "1 break" in page.page.inner_text("#prompts-text")
    assert len(page.rows()) == 7
    page.shoot("light")


def test_filters_and_search(visit, used):
    page = visit(used.url)
    page.page.wait_for_selector("#rows tr")

    def shown(which):
        page.page.locator(f"#filters input[value={which}]").check()
        page.page.wait_for_timeout(50)

    shown("breaks")
    page.until(lambda: len(page.rows()) == 1)
    assert "messages changed" in page.rows()[0]
    shown("errors")
    page.until(lambda: len(page.rows()) == 1 and "status 400" in page.rows()[0])
    shown("slow")
    page.until(lambda: not page.rows())
    assert page.page.inner_text("#rows-none") == "No request is like that."
    shown("all")
    page.until(lambda: len(page.rows()) == 7)
    page.page.fill("#search", "CLUMSY")
    page.until(lambda: len(page.rows()) == 1)
    page.page.fill("#search", "")
    page.until(lambda: len(page.rows()) == 7)


def test_what_comes_from_outside_stays_text(visit, used):
    """In names of models, clients and sessions; the prompt itself is not there at all."""
    page = visit(used.url)
    page.page.wait_for_selector("#rows tr")
    page.page.wait_for_timeout(300)
    assert CANARY in page.page.inner_text("#upstream-name")
    page.page.locator("#rows tr", has_text="<img").first.locator("button").click()
    page.page.wait_for_selector("#detail[open]")
    page.until(lambda: CANARY in page.page.inner_text("#detail-body"))
    assert page.page.evaluate("window.hit") is None
    assert page.page.locator("img:not([src^='/_cacheproxy/'])").count() == 0
    assert "today is" not in page.page.content()


def test_one_request_in_detail_by_keyboard_alone(visit, used):
    """Enter opens it, Escape closes it and gives the focus back."""
    page = visit(used.url).page
    page.wait_for_selector("#rows tr.broke")
    page.locator("#rows tr.broke button").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#detail[open]")
    page.wait_for_selector("#detail h2 >> text=What to do")
    text = page.inner_text("#detail")
    assert "An earlier message changed" in text
    assert "/messages/" in text
    assert "2026-11-21" not in text
    page.keyboard.press("Escape")
    assert page.locator("#detail[open]").count() == 0
    assert page.evaluate("document.activeElement.closest('tr').className") == "broke"


def test_the_chart_is_read_by_keyboard(visit, used):
    """Its text says the same."""
    page = visit(used.url).page
    page.wait_for_selector("#prompts canvas")
    page.focus("#prompts")
    page.keyboard.press("ArrowLeft")
    last = page.inner_text("#prompts-read")
    assert "turn" in last
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        "before => document.querySelector('#prompts-read').innerText !== before", arg=last
    )
    page.keyboard.press("Enter")
    page.wait_for_selector("#detail[open]")


@pytest.mark.parametrize("width", [360, 768, 1280, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_width_in_light_and_dark(visit, used, width, scheme):
    """Nothing to scroll sideways; all text has the contrast of WCAG AA; all has a name."""
    page = visit(used.url, width=width, scheme=scheme)
    page.page.wait_for_selector("#prompts canvas")
    page.page.wait_for_selector("#rows tr")
    page.page.wait_for_timeout(100)
    assert page.sideways() <= 0
    assert page.page.evaluate(CONTRAST) == []
    assert page.page.evaluate(NAMELESS) == []
    background = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background < "rgb(2") == (scheme == "dark")
    page.shoot(f"{scheme}-{width}")
    page.page.locator("#rows tr.broke button").click()
    page.page.wait_for_selector("#detail[open]")
    page.page.wait_for_selector("#detail h2 >> text=What to do")
    assert page.sideways() <= 0
    assert page.page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("window", ["15m", "24h", "30d"])
def test_other_windows(visit, used, window):
    """Chosen once, kept for the next visit."""
    page = visit(used.url)
    page.page.wait_for_selector("#rows tr")
    page.page.locator(f"#windows input[value='{window}']").check()
    words = {"15m": "15 minutes", "24h": "24 hours", "30d": "30 days"}[window]
    page.until(lambda: words in page.page.inner_text("#standing-text"))
    page.page.reload()
    page.until(lambda: words in page.page.inner_text("#standing-text"))
    page.shoot(f"window-{window}")


def test_the_server_goes_and_comes_back(visit, model, tmp_path):
    """The page says so by itself, with what to do; then takes it back."""
    server = LlamaServer(model, n_ctx=2048)
    port = int(server.url.rpartition(":")[2])
    with started(server.url, tmp_path) as proxy:
        page = visit(proxy.url)
        page.until(lambda: page.page.inner_text("#upstream-name").endswith("· up"))
        server.close()
        page.page.wait_for_selector("#banner:not([hidden])")
        assert "does not answer" in page.page.inner_text("#banner")
        assert f"--port {port}" in page.page.inner_text("#banner")
        assert page.page.evaluate(CONTRAST) == []
        page.shoot("down")
        with LlamaServer(model, n_ctx=2048, port=port):
            page.until(lambda: not page.page.locator("#banner").is_visible())
        page.close()


def test_several_upstreams_have_a_row_each(visit, model, llama, tmp_path):
    """For each route that led there; one that is gone while another is up is no alarm."""
    server = LlamaServer(model, n_ctx=2048)
    file = tmp_path / "pool.toml"
    file.write_text(
        f'[[upstream]]\nname = "small"\nurl = "{server.url}"\n'
        f'[[upstream]]\nname = "big"\nurl = "{llama.url}"\ncost_in = 90000\n'
        '[[route]]\nname = "few"\nto = ["small"]\nmax_tokens = 100\n'
        '[[route]]\nname = "work"\nto = ["big"]\n'
    )
    with started("", tmp_path, "--config", str(file)) as proxy:
        page = visit(proxy.url)
        page.page.wait_for_selector("#empty:not([hidden])")
        assert not page.page.locator("#upstreams").is_visible()
        for session, words in (("a", 1), ("b", 20), ("c", 20)):
            said = [{"role": "user", "content": WORDS * words}]
            assert ask(proxy, said, session=session) == 200
        rows = page.page.locator("#upstreams-rows tr")
        page.until(lambda: [text.split()[:4] for text in rows.all_inner_texts()] == [
            ["small", "few", "up", "1"],
            ["big", "work", "up", "2"],
        ])  # fmt: skip
        price = rows.all_inner_texts()[1].split()[-1]
        assert float(price) > 0
        assert page.page.evaluate(CONTRAST) == []
        assert page.page.evaluate(NAMELESS) == []
        assert page.sideways() <= 0
        page.shoot("upstreams")
        server.close()
        page.until(lambda: "does not answer" in rows.all_inner_texts()[0])
        assert not page.page.locator("#banner").is_visible()
        page.close()


def test_the_token_in_the_address_opens_it_and_is_gone(visit, llama, tmp_path):
    """From then on the cookie does; without either, the page asks."""
    with started(llama.url, tmp_path, CACHEPROXY_TOKEN="signs=&%") as proxy:
        page = visit(proxy.url, path="/_cacheproxy/#token=signs%3D%26%25")
        page.page.wait_for_selector("#empty:not([hidden])")
        assert page.page.url == f"{proxy.url}/_cacheproxy/"
        assert page.page.evaluate("document.cookie") == ""
        page.page.reload()
        page.page.wait_for_selector("#empty:not([hidden])")
        stranger = visit(proxy.url)
        stranger.page.wait_for_selector("#login:not([hidden])")
        stranger.page.fill("#token", "wrong")
        stranger.page.keyboard.press("Enter")
        stranger.until(lambda: "not the token" in stranger.page.inner_text("#login-error"))
        stranger.shoot("login")
        stranger.page.fill("#token", "signs=&%")
        stranger.page.keyboard.press("Enter")
        stranger.page.wait_for_selector("#empty:not([hidden])")
        refused = [each for each in stranger.complaints if "401" in each]
        stranger.complaints = [each for each in stranger.complaints if each not in refused]
        assert refused
        page.close()
        stranger.close()


def test_a_proxy_that_comes_back_is_found_again(visit, llama, tmp_path):
    """With what was before: totals are kept."""
    with started(llama.url, tmp_path) as proxy:
        ask(proxy, [{"role": "user", "content": WORDS}], session="s1")
        page = visit(proxy.url)
        page.until(lambda: len(page.rows()) == 1)
        port = proxy.address[1]
    page.page.wait_for_selector("#link:not([hidden])")
    page.shoot("reconnecting")
    again = ("--port", str(port))
    with started(llama.url, tmp_path, *again) as proxy:
        page.until(lambda: not page.page.locator("#link").is_visible())
        ask(proxy, [{"role": "user", "content": WORDS}], session="s2")
        page.until(lambda: len(page.rows()) == 2)
    page.complaints = [each for each in page.complaints if "ERR_" not in each]
