"""Exchanges as a source of the dashboard keeps them, for tests."""

from twisted.internet.task import Clock

from cacheproxy.observe.recent import Latest, Recent
from cacheproxy.totals.totals import InMemoryTotals
from cacheproxy.web.dashboard import Dashboard
from cacheproxy.web.exchanges import detail
from cacheproxy.web.pages import found

NOW = 1_700_000_000.0
URL = "http://localhost:8080"


class Shown:
    """A dashboard with its figures in memory, from ``NOW`` on; ``finish`` adds an exchange."""

    def __init__(self, most=500):
        self.clock = Clock()
        self.recent = Recent()
        self.latest = Latest()
        self.source = InMemoryTotals(lambda: NOW + self.clock.seconds(), most)
        self.dashboard = Dashboard(self.source, self.recent, self.latest, "0.1.0")
        self.dashboard.url = URL
        self.observers = [self.recent, self.source]

    def detail(self, name):
        return detail(found(self.recent, name), self.dashboard.report)

    def finish(self, *exchanges):
        for observer in self.observers:
            observer.cacheproxy_exchange_finished(exchanges)
