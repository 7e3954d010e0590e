"""From a break to the rule that cures it, by clicks alone."""

from .conftest import WORDS, ask, started

SYSTEM = "Today's date: 2026-11-{}\n<b>" + WORDS * 40


def test_from_a_break_to_an_applied_rule_and_back(visit, llama, tmp_path):
    """What changed is shown when it is asked for; the rule works from the next turn on."""
    file = tmp_path / "config.toml"
    file.write_text("")
    with started(llama.url, tmp_path, "--config", str(file)) as proxy:
        said = []

        def turn(day):
            said.append({"role": "user", "content": f"{WORDS} {len(said)}"})
            system = {"role": "system", "content": SYSTEM.format(day)}
            assert ask(proxy, [system, *said], session="s1", client="somebody/1.0") == 200
            said.append({"role": "assistant", "content": WORDS})

        for day in (20, 20, 21):
            turn(day)
        page = visit(proxy.url)
        page.page.click("#last-what")
        page.page.wait_for_selector("#break-h")
        assert "2026-11-2" not in page.page.inner_text(".hidden-words")
        assert page.page.locator(".texts").count() == 0
        page.page.click("text=Show the words")
        page.page.wait_for_selector(".texts")
        assert page.page.locator(".was del").all_inner_texts() == ["2026-11-20"]
        assert page.page.locator(".now ins").all_inner_texts() == ["2026-11-21"]
        assert "<b>" in page.page.inner_text(".now")
        assert page.axe() == []
        assert "Apply writes it to" in page.page.inner_text("#cure")
        page.shoot("cure")
        page.page.go_back()
        page.page.click("#last-cure")
        apply = page.page.wait_for_selector("#cure button.action")
        assert apply.inner_text() == "Apply"
        focused = "() => document.activeElement.matches('#cure button.action')"
        page.page.wait_for_function(focused)
        page.page.keyboard.press("Enter")
        page.page.wait_for_selector("#cure .done")
        assert "[[rule]]" in file.read_text()
        assert page.axe() == []
        turn(21)
        turn(22)
        page.look("", "#rows tr")
        page.until(lambda: len(page.rows()) == 5)
        assert page.page.locator("#rows tr").first.locator(".end").inner_text().strip() == "ok"
        page.until(lambda: "Cured" in page.page.inner_text("#last-cure"))
        page.page.go_back()
        undo_in_vain(page, file)
        page.page.click("#cure >> text=Undo")
        page.page.wait_for_selector("#cure button.action")
        assert not file.read_text().strip()
        page.shoot("cured")
        page.close()


def undo_in_vain(page, file):
    """A rule that its user has edited stays, and nothing says that all went well."""
    written = file.read_text()
    file.write_text(written.replace("pin = true", "pin = true  # mine"))
    page.expected = "409"  # the browser complains of each answer that says so
    page.page.click("#cure >> text=Undo")
    page.until(lambda: "edited since" in page.page.inner_text("#cure .said:not(.done)"))
    file.write_text(written)
