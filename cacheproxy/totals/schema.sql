-- Exchanges and their sums. Times are INTEGER milliseconds (at: since the epoch).

CREATE TABLE upstreams (
    id INTEGER PRIMARY KEY,
    url TEXT NOT NULL UNIQUE,
    served TEXT,                  -- the only model that it serves, if it lists one
    first_seen INTEGER NOT NULL
);

CREATE TABLE words (              -- short recurring texts
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    client TEXT NOT NULL,
    name TEXT NOT NULL,
    root INTEGER,                 -- the session that it works for
    upstream INTEGER NOT NULL,
    model TEXT,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    requests INTEGER NOT NULL DEFAULT 0,
    turns INTEGER NOT NULL DEFAULT 0,
    side INTEGER NOT NULL DEFAULT 0,
    breaks INTEGER NOT NULL DEFAULT 0,
    prompt INTEGER NOT NULL DEFAULT 0,  -- tokens of requests whose reuse is known
    reused INTEGER NOT NULL DEFAULT 0,
    evaluated INTEGER NOT NULL DEFAULT 0,
    output INTEGER NOT NULL DEFAULT 0,
    context INTEGER NOT NULL DEFAULT 0, -- tokens of the conversation after its last turn
    lost INTEGER NOT NULL DEFAULT 0,
    lost_ms INTEGER NOT NULL DEFAULT 0,
    spared INTEGER NOT NULL DEFAULT 0,
    spared_ms INTEGER NOT NULL DEFAULT 0,
    unpriced INTEGER NOT NULL DEFAULT 0, -- tokens in spared without a time in spared_ms
    UNIQUE (client, name)
);

CREATE INDEX sessions_last ON sessions (last);
CREATE INDEX sessions_root ON sessions (root) WHERE root IS NOT NULL;

CREATE TABLE exchanges (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
    at INTEGER NOT NULL,
    number INTEGER NOT NULL,      -- the request's, from the proxy's start on
    upstream INTEGER NOT NULL,
    session INTEGER,
    model INTEGER,                -- the requested one; a word, as are dialect to rules
    dialect INTEGER,
    outcome INTEGER NOT NULL,
    verdict INTEGER,
    reason INTEGER,
    shape INTEGER,
    rules INTEGER,
    waited TEXT,                  -- wait and progress, in words, of a client that left
    turn INTEGER NOT NULL,
    side INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    status INTEGER,
    prompt INTEGER,
    reused INTEGER,
    evaluated INTEGER,
    output INTEGER,
    tools INTEGER,                -- estimated tokens of the prompt's parts
    system INTEGER,
    history INTEGER,
    thinking INTEGER,
    newest INTEGER,
    rendered INTEGER,             -- the order of these parts, a word
    prompt_ms INTEGER,
    output_ms INTEGER,
    first_ms INTEGER,
    total_ms INTEGER NOT NULL,
    added_us INTEGER,             -- microseconds from when the request was read until it was sent
    equal INTEGER,                -- of a break: tokens shared with the previous turn
    lost INTEGER,                 -- of a break: tokens evaluated again
    lost_ms INTEGER,
    spared INTEGER,               -- estimated tokens not evaluated thanks to the rules
    spared_ms INTEGER,            -- NULL: the speed is not known
    up INTEGER NOT NULL,          -- bytes of the bodies
    down INTEGER NOT NULL,
    place TEXT                    -- of a break: JSON pointer of its place
);

CREATE INDEX exchanges_at ON exchanges (at);
CREATE INDEX exchanges_session ON exchanges (session, id);
CREATE INDEX exchanges_breaks ON exchanges (id) WHERE reason IS NOT NULL AND side = 0;
CREATE INDEX exchanges_failed ON exchanges (id) WHERE failed = 1;
CREATE INDEX exchanges_slow ON exchanges (id) WHERE first_ms >= 10000;

-- Sums for pages with windows of up to 30 days, which need not read every exchange. The lifetime
-- totals are the same sums in a step without end.

CREATE TABLE rollups (            -- sums over the exchanges that began in the step from at on
    step INTEGER NOT NULL,
    upstream INTEGER NOT NULL,
    at INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    breaks INTEGER NOT NULL,
    prompt INTEGER NOT NULL,      -- tokens of requests that report them
    reused INTEGER NOT NULL,
    evaluated INTEGER NOT NULL,
    output INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    spared INTEGER NOT NULL,
    spared_ms INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,    -- tokens in spared without a time in spared_ms
    timed_prompt INTEGER NOT NULL,  -- evaluated tokens whose time is known, and that time
    prompt_ms INTEGER NOT NULL,
    timed_output INTEGER NOT NULL,
    output_ms INTEGER NOT NULL,
    first_ms INTEGER NOT NULL,    -- the longest wait for a first byte
    context INTEGER NOT NULL,     -- the longest prompt of a turn
    added_us INTEGER NOT NULL,
    sent INTEGER NOT NULL,        -- number of requests summed in added_us
    PRIMARY KEY (step, upstream, at)
) WITHOUT ROWID;

CREATE TABLE rollup_firsts (      -- number of waits for a first byte, by class
    step INTEGER NOT NULL,
    upstream INTEGER NOT NULL,
    at INTEGER NOT NULL,
    class INTEGER NOT NULL,       -- quarter powers of two of a millisecond
    count INTEGER NOT NULL,
    PRIMARY KEY (step, upstream, at, class)
) WITHOUT ROWID;

CREATE TABLE rollup_breaks (
    step INTEGER NOT NULL,
    upstream INTEGER NOT NULL,
    at INTEGER NOT NULL,
    reason INTEGER NOT NULL,      -- a word
    shape INTEGER NOT NULL,       -- a word; 0: none
    count INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    lost_ms INTEGER NOT NULL,
    last INTEGER NOT NULL,        -- the latest of these exchanges
    PRIMARY KEY (step, upstream, at, reason, shape)
) WITHOUT ROWID;

CREATE TABLE rollup_groups (      -- sums by client and model
    step INTEGER NOT NULL,
    upstream INTEGER NOT NULL,
    at INTEGER NOT NULL,
    client TEXT NOT NULL,         -- '': not known
    model INTEGER NOT NULL,       -- the requested one; a word, 0: none
    requests INTEGER NOT NULL,
    prompt INTEGER NOT NULL,
    reused INTEGER NOT NULL,
    evaluated INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    lost_ms INTEGER NOT NULL,
    PRIMARY KEY (step, at, upstream, client, model)
) WITHOUT ROWID;

CREATE TABLE routed (             -- requests of each route to each upstream, and their price
    upstream INTEGER NOT NULL,
    route TEXT NOT NULL,          -- '': none matched
    requests INTEGER NOT NULL,
    prompt INTEGER NOT NULL,
    reused INTEGER NOT NULL,
    evaluated INTEGER NOT NULL,
    output INTEGER NOT NULL,
    price REAL NOT NULL,          -- in the currency of the configuration
    PRIMARY KEY (upstream, route)
) WITHOUT ROWID;
