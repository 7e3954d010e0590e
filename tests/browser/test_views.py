"""The views of the dashboard: by link, by keyboard, on each screen, without seeing them."""

import pytest

from .conftest import CANARY

VIEWS = {
    "": "#rows tr",
    "conversations": "#conversations tbody tr",
    "conversation/agent%2Fs1": "#conversation .turn [data-key]",
    "break/last": "#break-h",
}
FIRST_LOAD = 75_000
"""Bytes of all that the first view asks for, as they are sent."""


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        *((390, "light"), (1280, "dark")),
        pytest.param(390, "dark", marks=pytest.mark.nightly),
        pytest.param(1280, "light", marks=pytest.mark.nightly),
    ],
)
def test_axe_finds_nothing_in_any_view(visit, used, scheme, width):
    """On a phone and on a desk; nothing has to be scrolled sideways."""
    page = visit(used.url, width=width, scheme=scheme)
    for view, shown in VIEWS.items():
        page.look(view, shown)
        assert (view, page.axe()) == (view, [])
        assert (view, page.sideways()) == (view, 0)
        page.shoot(f"{view.partition('/')[0] or 'overview'}-{scheme}-{width}")
    background = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background < "rgb(2") == (scheme == "dark")


def test_the_first_three_answers_are_seen_at_once(visit, used):
    """Without scrolling: on a phone, a laptop and a large screen."""
    for width, height in ((390, 844), (1280, 720), (2560, 1300)):
        page = visit(used.url, width=width)
        page.page.set_viewport_size({"width": width, "height": height})
        page.page.wait_for_selector("#last-some:not([hidden])")
        bottoms = page.page.evaluate(
            "[...document.querySelectorAll('.card')].map((e) => e.getBoundingClientRect().bottom)"
        )
        assert len(bottoms) == 3
        assert max(bottoms) <= height
        assert page.sideways() == 0
        assert page.page.evaluate("document.getAnimations().length") == 0  # for anybody
        page.close()


def test_the_first_load_is_small(browser, used):
    """All files of the overview; its figures come by the stream. No module waits for another."""
    context = browser.new_context()
    page = context.new_page()
    asked = {}
    page.on("requestfinished", lambda request: asked.update({request.url: request}))
    page.goto(used.url + "/_cacheproxy/")
    page.wait_for_selector("#rows tr")
    page.wait_for_load_state("load")
    sizes = {url: request.sizes()["responseBodySize"] for url, request in asked.items()}
    preloaded = page.locator("link[rel=modulepreload]").evaluate_all(
        "all => all.map((e) => e.href)"
    )
    context.close()
    static = used.url + "/_cacheproxy/static/"
    scripts = {url for url in sizes if url.endswith(".js")}
    assert scripts == {*preloaded, static + "dashboard.js", static + "uplot.js"}
    assert static + "words.js" in sizes
    assert 30_000 < sum(sizes.values()) < FIRST_LOAD


def test_a_conversation_is_found_opened_and_left_by_keyboard(visit, used):
    """The address holds each view; Escape and the back button lead back."""
    page = visit(used.url)
    page.page.wait_for_selector("#rows tr")
    page.page.keyboard.press("c")
    page.page.wait_for_selector("#conversations tbody tr >> nth=2")
    page.page.keyboard.press("/")
    page.page.keyboard.type("agent")
    page.page.wait_for_selector("#conversations tbody tr >> nth=1", state="detached")
    assert page.page.url.endswith("#/conversations?search=agent")
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#conversation .turn.broke")
    assert page.page.url.endswith("#/conversation/agent%2Fs1")
    labels = page.page.locator("#conversation .turn .label").all_inner_texts()
    assert labels == ["#1", "#2", "#3", "#4", "#5"]
    page.page.keyboard.press("k")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#break-h")
    page.page.keyboard.press("Escape")
    page.page.wait_for_selector("#conversation .turn.broke")
    page.page.go_back()
    page.page.wait_for_selector("#conversations tbody tr")
    assert page.page.input_value("#conversations input") == "agent"
    page.page.keyboard.press("?")
    page.page.wait_for_selector("#help[open]")


def test_a_turn_shows_what_was_reused_and_where_it_broke(visit, used):
    """Reused and evaluated differ in more than colour; the flag stands where the prompts part."""
    page = visit(used.url, path="/_cacheproxy/#/conversation/agent%2Fs1")
    page.page.wait_for_selector("#conversation .turn.broke")
    fourth, fifth = (page.page.locator("#conversation .stacked").nth(index) for index in (3, 4))

    def width(bar, which):
        return bar.evaluate(
            "(bar, which) => [...bar.querySelectorAll(which)]"
            ".reduce((sum, each) => sum + each.getBoundingClientRect().width, 0)",
            which,
        )

    assert width(fourth, ".part:not(.fresh)") > width(fourth, ".part.fresh") > 0
    assert width(fifth, ".part:not(.fresh)") < width(fifth, ".part.fresh")
    pattern = "(node) => getComputedStyle(node).backgroundImage"
    assert "gradient" in fifth.locator(".fresh").first.evaluate(pattern)
    flag = fifth.locator(".flag").evaluate("(flag) => parseFloat(flag.style.left)")
    assert 0 <= flag < 20
    assert fourth.locator(".flag").count() == 0


def test_markup_in_names_stays_text_in_each_view(visit, used):
    """Of a client, a session and a model."""
    page = visit(used.url)
    page.look("conversations", "#conversations tbody tr")
    page.page.locator("#conversations tbody tr a", has_text="imgs-").first.click()
    page.page.wait_for_selector("#conversation .turn .label")
    assert CANARY in page.page.inner_text("#conversation h2")
    assert page.page.locator("img:not([src^='/_cacheproxy/'])").count() == 0
    assert page.page.evaluate("window.hit") is None


def test_a_link_to_a_request_opens_it_and_back_closes_it(visit, used):
    page = visit(used.url)
    page.page.wait_for_selector("#rows tr")
    page.page.locator("#rows tr").first.click(position={"x": 300, "y": 8})
    page.page.wait_for_selector("#detail[open]")
    link = page.page.url.removeprefix(used.url)
    page.page.go_back()
    page.page.wait_for_selector("#detail:not([open])", state="attached")
    again = visit(used.url, path=link)
    again.page.wait_for_selector("#detail[open] dl")
    assert "clumsy" in again.page.inner_text("#detail")
