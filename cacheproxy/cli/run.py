"""``cacheproxy run``: a client behind the proxy, for as long as it lives."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import click
import platformdirs

from cacheproxy.child.foreground import Foreground, is_drawn_on
from cacheproxy.child.process import ChildProxy
from cacheproxy.cli.env import client_argument
from cacheproxy.cli.running import need_of, proxy_url
from cacheproxy.cli.runtext import Run, first_line
from cacheproxy.cli.settings import (
    OneLine,
    api_key_option,
    config_option,
    fail,
    key_headers,
    proxy_option,
    read_settings,
    say,
)
from cacheproxy.client_setup.checkup import Case, Checkup
from cacheproxy.client_setup.finding import FindingState
from cacheproxy.client_setup.need import Launch, Need
from cacheproxy.config import Config, ConfigError
from cacheproxy.core.kinds.known import EXAMPLE, all_kinds
from cacheproxy.core.kinds.status import MODELS
from cacheproxy.http_client import (
    HEALTH,
    CommandError,
    NoAnswerError,
    Site,
    after,
    checked_url,
    is_health,
    is_same,
    refused,
    shown,
)
from cacheproxy.plugin.loading import package_for
from cacheproxy.plugin.package import Package, PluginError
from cacheproxy.words import meant

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LOOK_SECONDS = 2.0
_LOOKS = 6  #: tries to read a busy proxy's health page, of five seconds each
_SILENT_SECONDS = 60.0  #: seconds without any prompt after which the user is warned
_NOT_READY = (401, 403, 503)
"""Status codes of servers that ask for a key, or are still loading a model."""
_MOST_LOGS = 9
_ELSEWHERE = "none was asked for, or its own settings or options lead it elsewhere"
_START = (
    f"start one ({EXAMPLE.starts}), or name it with --upstream URL; cacheproxy demo --serve gives "
    "one to play with"
)


@click.command(
    cls=OneLine, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@client_argument
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--upstream",
    metavar="URL",
    help="The model server's URL; by default the one in the configuration, or that is found here.",
)
@click.option(
    "--cure",
    is_flag=True,
    help="At the end, write the rule for what broke most into the config file, if one is proven.",
)
@proxy_option
@api_key_option
@config_option
def run(
    *,
    client: str,
    arguments: tuple[str, ...],
    upstream: str | None,
    cure: bool,
    proxy: str | None,
    api_key: str | None,
    config: str | None,
) -> None:
    """Start CLIENT so that it uses the proxy, with ARGS, and say at its end what that saved.

    It uses the proxy that runs. Where none does, it starts one for as long as the client lives: on
    a free port of this machine, with your settings, before the model server that it finds. Its log
    is the file log in the state folder.

    The client alone is told of it: by variables of its environment, options, or files that are
    gone when it is. Your own files stay as they are. What stands behind CLIENT goes to it,
    unchanged; so do Ctrl-C and other signals, and its exit code becomes the command's.
    """
    key_headers(api_key)
    settings = read_settings(config)
    if client.startswith("-"):
        near = meant(client, (name for each in run.params for name in each.opts))
        fail(f"run has no option {client}{near or ': a client takes its own behind its name'}")
    package = package_for(client, settings.block, settings.plugin)
    program = _program(package, client)
    with (
        Foreground() as foreground,
        tempfile.TemporaryDirectory(prefix="cacheproxy-run-", ignore_cleanup_errors=True) as folder,
        _proxy(settings, config, proxy, upstream and checked_url(upstream)) as (site, own),
    ):
        page = _up(site)
        need = need_of(site.url, settings, api_key, page, folder)
        setup = package.setup(need)
        launch = setup.launch
        assert launch is not None  # the same setup had one when asked without a proxy
        for name, content in launch.files.items():
            file = Path(folder) / name
            try:
                file.write_text(content, encoding="utf-8")
            except OSError as error:
                fail(f"cannot write {file} ({error.strerror}): set TMPDIR to a folder with room")
        assert package.client is not None  # since it has a setup
        began = Run(site, package.client.name, time.time(), is_own=own is not None)
        say(first_line(page, package.client.name))
        log = f"   log: {_tilde(own)}" if own else "   (it runs already)" if own is None else ""
        say(f"{shown(site.url)}/_cacheproxy/{log}")
        for warning in setup.warnings:
            say(warning)
        env = {name: value for name, value in os.environ.items() if name not in setup.unset}
        env |= {**need.secrets, **need.unproxied(env), **setup.told(env), **launch.variables}
        words = arguments[1:] if arguments[:1] == ("--",) else arguments
        for option in {word.partition("=")[0] for word in words} & {*launch.arguments}:
            if option.startswith("--"):
                say(f"your {option} replaces ours: what it leaves out, {client} reads elsewhere")

        def say_silence() -> None:
            """Print why no prompt may have come so far, unless the client draws on the terminal."""
            if not is_drawn_on() and began.is_silent():
                say(_why_none(began, package, env, page))

        try:
            with after(_SILENT_SECONDS, say_silence):
                code = foreground.run([program, *launch.arguments, *words], env)
        except OSError as error:
            fail(f"{program} cannot be started: {error.strerror}")
        last = began.last_line(cure=cure) or _why_none(began, package, env, page)
        if foreground.leaves_line:
            click.echo(err=True)
        say(last)
    raise SystemExit(code)


def _program(package: Package, client: str) -> str:
    """Return the path of the client's program; ends the command if there is none to start."""
    launch: Launch | None = package.setup(Need("http://127.0.0.1")).launch
    if launch is None:
        fail(f"{client} has no command to start: cacheproxy env {client} prints what it needs")
    found = shutil.which(launch.program)
    if found is None:
        fail(f"{launch.program} is not on your PATH; this installs it: {launch.install}")
    return found


@contextmanager
def _proxy(
    settings: Config, config: str | None, proxy: str | None, upstream: str | None
) -> Iterator[tuple[Site, str | None]]:
    """Yield the proxy to use, and the name of its log file.

    The name is None for a proxy that was running already. Otherwise the proxy is started here and
    ends with this context; the name is "" without a log. Ends the command without a model server.
    """
    url = proxy or ""
    with suppress(ConfigError):  # they do not tell where it is: none is found
        url = url or proxy_url(settings)
    headers = {"Accept": "application/json", **settings.token_header()}
    site = Site(checked_url(url) if url else "", headers)
    if url and _runs(site, upstream, is_named=proxy is not None):
        yield site, None
        return
    options = () if config is None else ("--config", config)
    server = upstream or _server(settings)
    log = _log(settings)
    with ChildProxy(server, *options, users=True, log=log) as own:
        yield Site(own.url, site.headers), "" if log is None else str(log.name)


def _runs(site: Site, upstream: str | None, *, is_named: bool) -> bool:
    """Return whether a proxy runs at ``site`` before the server ``upstream`` (None: any server).

    ``is_named``: the user named this proxy; then the command ends if none answers there. It ends,
    too, if a proxy there asks for its token.
    """
    try:
        answer = site.get(HEALTH)
    except NoAnswerError as error:
        if not is_named:
            return False
        fail(f"no cacheproxy answers at {shown(site.url)} ({error}): leave out --proxy")
    page: Any = answer.json() if answer.status == 200 else None
    if not is_health(page):
        if is_named or answer.status == 401:
            fail(refused(answer, shown(site.url)))
        return False
    return upstream is None or any(is_same(upstream, each["url"]) for each in _upstreams(page))


def _upstreams(page: Any) -> Any:
    """Return the health page's objects on the servers, as a list even for a single one."""
    return page["upstreams"] or [page["upstream"]]


def _server(settings: Config) -> str:
    """Return the URL of a model server found here; "" if one is configured. May end the command."""
    if settings.upstreams or settings.upstream != Config().upstream:
        return ""  # _up checks later whether it answers
    ports = dict.fromkeys(kind.port for kind in all_kinds() if kind.port)
    silent = []  # URLs of servers that do not list their models
    for url in (f"http://localhost:{port}" for port in ports):
        lists = lists_models(url)
        if lists:
            return url
        silent += [url] if lists is None else []
    if not silent:
        where = f"here, at any of the ports {', '.join(map(str, ports))}"
        fail(f"no model server answers {where}: {_START}")
    say(f"what answers at {silent[0]} lists no models; if that is another program, use --upstream")
    return silent[0]


def lists_models(url: str) -> bool | None:
    """Return whether a model server listens at ``url``; None if it asks for a key or is loading."""
    try:
        answer = Site(url).get(MODELS, _LOOK_SECONDS)
    except NoAnswerError:
        return False
    page = answer.json()
    if not isinstance(page, dict):
        return False
    if answer.status != 200:
        return None if answer.status in _NOT_READY and "error" in page else False
    models = page.get("data")
    known = models if isinstance(models, list) else []
    return page.get("object") == "list" or any(
        "id" in one for one in known if isinstance(one, dict)
    )


def _up(site: Site) -> Any:
    """Return the proxy's health page; ends the command if that or every server does not answer."""
    page = next(filter(None, (site.health() for _ in range(_LOOKS))), None)
    if page is None:
        raise CommandError(
            f"the proxy at {shown(site.url)} does not answer in time: this machine, or the proxy, "
            "is busy; try again, or see what cacheproxy doctor says"
        )
    upstreams = _upstreams(page)
    if all(each["state"] != "up" for each in upstreams):
        where = ", ".join(shown(each["url"]) for each in upstreams)
        fail(f"no model server answers at {where}: {_START}")
    return page


def _why_none(began: Run, package: Package, env: Mapping[str, str], page: Any) -> str:
    """Return a line that no prompt came, with the reason if the client's settings show one."""
    said = f"no prompt of {began.client} came through the proxy"
    upstream = str(page["upstream"]["url"])
    case = Case(env, Path.home(), began.site.url, upstream)
    try:
        found = package.ask("cacheproxy_checkup", Checkup, case).findings
    except (KeyError, PluginError):
        found = ()
    bad = [one.text for one in found if one.state in (FindingState.FAIL, FindingState.WARN)]
    return f"{said}: {bad[0] if bad else _ELSEWHERE}"


def _log(settings: Config) -> IO[bytes] | None:
    """Return a locked, empty file for our own proxy's log; None if none is wanted, or possible."""
    if settings.state_dir == "none":
        return None
    users = platformdirs.user_state_path("cacheproxy")
    folder = users if settings.state_dir == "user" else Path(settings.state_dir).expanduser()
    for number in range(1, _MOST_LOGS):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = (folder / ("log" if number == 1 else f"log.{number}")).open("a+b")
        except OSError:
            return None
        try:
            Path(file.name).chmod(0o600)
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # the file belongs to another run, whose proxy has locked it
            file.close()
            continue
        file.truncate(0)
        return file
    return None


def _tilde(path: str) -> str:
    """Return ``path`` with ``~`` for the user's home folder."""
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path.startswith(home + os.sep) else path
