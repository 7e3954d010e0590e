"""The memory that the user allows, shared out over all that remembers conversations."""

from __future__ import annotations

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.document.memo import Memo
from cacheproxy.observe.judging import Judging


def share_out(mib: int, store: Store, memo: Memo, judging: Judging) -> None:
    """Give each its share of ``mib``; together they take no more.

    Half for conversations: one that is forgotten begins anew, without pins and verdict. Three
    eighths for parsed messages: a forgotten one is read again. One eighth for bodies that wait for
    their verdict. Of what is remembered already, the next turns let go.
    """
    eighth = (mib << 20) // 8
    store.most_bytes, memo.most_bytes, judging.most_waiting = 4 * eighth, 3 * eighth, eighth
