"""The dashboard in a real browser: live, filtered, read by keyboard, in all its states."""

import re
import threading

import pytest
from cacheproxy_demo.embedded import LlamaServer

from tests.proxy.harness import CHUNKED, TIMEOUT, whole

from .conftest import CANARY, WORDS, ask, started


def test_before_the_first_request_it_says_what_to_do(fresh, visit):
    """The lines for each client; the server is there."""
    page = visit(fresh.url)
    page.page.wait_for_selector("#empty:not([hidden])")
    text = page.page.inner_text("main")
    assert f"cacheproxy run --proxy {fresh.url} claude" in text
    assert "CACHEPROXY_TOKEN" in text
    page.page.locator("#clients .copy").first.click()
    page.page.wait_for_selector("#clients >> text=Copied")
    assert f"{fresh.url}/v1" in text
    assert "Requests" not in text
    assert page.axe() == []
    page.shoot("empty")


def test_a_request_appears_by_itself(fresh, visit):
    """Of the real server, while the page is open; its first one, and the next.

    Where requests of another time are listed, it does not.
    """
    page, past = visit(fresh.url), visit(fresh.url, path="/_cacheproxy/#/?to=9")
    page.page.wait_for_selector("#empty:not([hidden])")
    for number in (1, 2):
        ask(fresh, [{"role": "user", "content": WORDS * 20 * number}], session=f"s{number}")
        page.until(lambda wanted=number: len(page.rows()) == wanted)
    assert page.rows()[0].startswith(page.page.inner_text("#rows tr:first-child a"))
    page.page.wait_for_selector("#works:not([hidden])")
    page.until(lambda: "%" in page.page.inner_text("#share"))
    past.until(lambda: past.page.text_content("#prompts-text").startswith("2 requests"))
    assert past.rows() == []


def test_a_request_is_shown_while_it_runs(visit, upstream, tmp_path):
    """With how far its prompt is, if its server says; it leads to its conversation."""
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

    upstream.reset(script)
    said = [{"role": "user", "content": WORDS}]
    with started(upstream.url, tmp_path) as proxy:
        go_on.set()
        assert ask(proxy, said, session="s1") == 200
        page = visit(proxy.url)
        page.page.wait_for_selector("#rows tr")
        go_on.clear()
        said += [{"role": "assistant", "content": WORDS}, {"role": "user", "content": "more"}]
        asking = threading.Thread(target=ask, args=(proxy, said), kwargs={"session": "s1"})
        asking.start()
        page.page.wait_for_selector("#prefills >> text=prefill 2,048 of 11,000 tokens")
        assert "agent/s1 #2" in page.page.inner_text("#prefills")
        assert page.axe() == []
        assert page.sideways() == 0
        page.shoot("prefill")
        narrow = visit(proxy.url, width=360)
        narrow.page.wait_for_selector("#prefills:not([hidden])")
        assert narrow.sideways() == 0
        narrow.page.click("#prefills a")
        narrow.page.wait_for_selector("#conversation .turn .label")
        assert narrow.page.url.endswith("#/conversation/agent%2Fs1")
        narrow.close()
        go_on.set()
        page.page.wait_for_selector("#prefills[hidden]", state="attached")
        asking.join(TIMEOUT)
        page.close()
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
    assert "1 break" in page.page.text_content("#prompts-text")
    server = page.page.inner_text("#servers")
    assert "template\ntakes late system messages where they stand" in server
    assert "clients\nagent (5 requests in 1 session, " in server
    assert len(page.rows()) == 7
    page.shoot("light")


def test_filters_and_search(visit, used):
    page = visit(used.url)
    page.page.wait_for_selector("#rows tr")

    def shown(which):
        page.page.locator(f"#filters input[value={which}]").check()

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


def test_the_latest_request_stays_first(quick, visit):
    """Where more are listed than at first, and the stream begins anew with older ones."""
    for number in range(60):
        ask(quick, [{"role": "user", "content": f"{number}"}], session=f"agent:main:{number}")
    page = visit(quick.url)
    page.page.wait_for_selector("#rows tr >> nth=29")
    assert "agent/agent:main:59" in page.rows()[0]
    for which, shown in (("breaks", 0), ("all", 50)):
        page.page.locator(f"#filters input[value={which}]").check()
        page.until(lambda wanted=shown: len(page.rows()) == wanted)
    page.page.locator("#windows input[value='24h']").check()
    page.until(lambda: "24 hours" in page.page.inner_text("#standing-text"))
    keys = "(all) => all.map((each) => Number(each.dataset.key.slice(4)))"
    found = page.page.locator("#rows [data-key]").evaluate_all(keys)
    assert found == sorted(found, reverse=True)
    page.close()


def test_a_number_leads_to_what_it_counts(visit, used):
    """Of breaks, to these; of others and of an upstream, to the conversations."""
    page = visit(used.url)
    page.page.wait_for_selector("#rows tr >> nth=6")
    page.page.click("#breaks td[data-label=count] a")
    page.until(lambda: len(page.rows()) == 1)
    assert "messages changed" in page.page.inner_text("#period")
    page.page.click("#period")
    page.until(lambda: page.page.locator("#period").is_hidden())
    page.page.check("#groups-by input[value=upstream]")
    page.page.click("#groups a")
    page.page.wait_for_selector("#conversations tbody tr >> nth=2")
    assert "search=http" in page.page.url


def test_what_comes_from_outside_stays_text(visit, used):
    """In names of models, clients and sessions; the prompt itself is not there at all."""
    page = visit(used.url)
    page.page.wait_for_selector("#rows tr")
    page.until(lambda: CANARY in page.page.inner_text("#upstream-name"))
    page.page.locator("#rows tr", has_text="imgs-").first.locator("a").first.click()
    page.page.wait_for_selector("#detail[open]")
    page.until(lambda: CANARY in page.page.inner_text("#detail-body"))
    assert page.page.evaluate("window.hit") is None
    assert page.page.locator("img:not([src^='/_cacheproxy/'])").count() == 0
    assert "today is" not in page.page.content()


def test_one_request_in_detail_by_keyboard_alone(visit, used):
    """Enter opens it, Escape closes it and gives the focus back."""
    page = visit(used.url).page
    page.wait_for_selector("#rows tr.broke")
    page.locator("#rows tr.broke a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#detail[open]")
    page.wait_for_selector("#detail h3 >> text=What to do")
    text = page.inner_text("#detail")
    assert "An earlier message changed" in text
    assert "/messages/" in text
    assert "2026-11-21" not in text
    page.keyboard.press("Escape")
    page.wait_for_function("() => !location.hash.includes('request')")
    assert page.locator("#detail[open]").count() == 0
    assert page.evaluate("document.activeElement.closest('tr').className").startswith("broke")


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


def test_a_bar_over_time_lists_its_requests_until_all_are_asked_for(visit, used):
    """By keyboard; the address holds the time."""
    page = visit(used.url, path="/_cacheproxy/#/?window=24h")
    page.page.wait_for_selector("#rows tr >> nth=6")
    page.page.wait_for_selector("#prompts canvas")
    page.page.focus("#prompts")
    found = None
    while not found:  # from the last one on
        page.page.keyboard.press("ArrowLeft")
        found = re.search(r": ([1-9]\d*) request", page.page.inner_text("#prompts-read"))
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#period:focus")
    page.until(lambda: len(page.rows()) == int(found[1]))
    assert re.search(r"window=24h&from=\d+&to=\d+$", page.page.url)
    assert page.axe() == []
    again = visit(used.url, path="/_cacheproxy/#/?to=9")
    again.page.wait_for_selector("#rows-none:not([hidden])")
    again.page.click("#period")
    again.until(lambda: len(again.rows()) == 7)
    assert again.page.locator("#period").is_hidden()
    again.page.evaluate("location.hash = '#/?from=x&to=y'")
    again.until(lambda: "whole seconds since 1970" in again.page.inner_text("#rows-none"))
    again.expected = "400"  # the browser complains of each answer that says so


def test_other_windows(visit, used):
    """Chosen once, kept for the next visit."""
    page = visit(used.url)
    page.page.wait_for_selector("#rows tr")
    for window, words in {"15m": "15 minutes", "24h": "24 hours", "30d": "30 days"}.items():
        page.page.locator(f"#windows input[value='{window}']").check()
        page.until(lambda words=words: words in page.page.inner_text("#standing-text"))
        page.shoot(f"window-{window}")
    page.page.reload()
    page.until(lambda: "30 days" in page.page.inner_text("#standing-text"))


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
        assert page.axe() == []
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
        for session, words in (("a", 1), ("b", 20), ("c", 20)):
            said = [{"role": "user", "content": WORDS * words}]
            assert ask(proxy, said, session=session) == 200
        rows = page.page.locator("#profiles > li")
        page.until(lambda: "route few\n1 request," in rows.all_inner_texts()[0])
        page.until(lambda: "route work\n2 requests," in rows.all_inner_texts()[1])
        assert "server\nllama-server" in rows.all_inner_texts()[1]
        assert float(rows.all_inner_texts()[1].split("price ")[1].split()[0]) > 0
        assert page.axe() == []
        assert page.sideways() <= 0
        page.shoot("upstreams")
        server.close()
        page.until(lambda: "does not answer" in rows.all_inner_texts()[0])
        assert not page.page.locator("#banner").is_visible()
        page.close()


def test_the_token_in_the_address_opens_it_and_is_gone(visit, upstream, tmp_path):
    """From then on the cookie does; without either, the page asks."""
    with started(upstream.url, tmp_path, CACHEPROXY_TOKEN="signs=&%") as proxy:
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


def test_totals_that_are_not_kept_say_why(visit, upstream, tmp_path):
    (tmp_path / "state").write_text("in the way")
    with started(upstream.url, tmp_path) as proxy:
        ask(proxy, [{"role": "user", "content": WORDS}], session="s1")
        page = visit(proxy.url)
        page.until(lambda: len(page.rows()) == 1)
        assert "Not kept: cannot write" in page.page.text_content("#lifetime-source")
        page.close()


def test_a_proxy_that_comes_back_is_found_again(visit, upstream, tmp_path):
    """With what was before: totals are kept."""
    with started(upstream.url, tmp_path) as proxy:
        ask(proxy, [{"role": "user", "content": WORDS}], session="s1")
        page = visit(proxy.url)
        page.until(lambda: len(page.rows()) == 1)
        port = proxy.address[1]
        page.expected = "ERR_"  # the browser complains of who is not there
    page.page.wait_for_selector("#link:not([hidden])")
    page.shoot("reconnecting")
    with started(upstream.url, tmp_path, "--port", str(port)) as proxy:
        page.until(lambda: not page.page.locator("#link").is_visible())
        ask(proxy, [{"role": "user", "content": WORDS}], session="s2")
        page.until(lambda: len(page.rows()) == 2)


def test_a_proxy_without_its_records_is_shown_as_it_is(upstream, visit, tmp_path):
    """Requests of the one before, counted from 1 as well, do not keep its own out of the list."""
    with started(upstream.url, tmp_path) as proxy:
        for number in range(40):
            ask(proxy, [{"role": "user", "content": f"{number}"}], session="old")
        page = visit(proxy.url, path="/_cacheproxy/#/?filter=errors")
        page.until(lambda: page.page.locator("#rows-none").is_visible())
        page.page.locator("#filters input[value=all]").check()
        page.until(lambda: len(page.rows()) == 40)
        port = proxy.address[1]
        page.expected = "ERR_"  # the browser complains of who is not there
    again = ("--port", str(port), "--state-dir", str(tmp_path / "new"))
    with started(upstream.url, tmp_path, *again) as proxy:
        ask(proxy, [{"role": "user", "content": WORDS}], session="new")
        page.until(lambda: ["new" in each for each in page.rows()] == [True])
