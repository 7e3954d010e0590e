-- What happened, and what it adds up to. Times: INTEGER milliseconds (at: since the epoch).

CREATE TABLE upstreams (
    id INTEGER PRIMARY KEY,
    url TEXT NOT NULL UNIQUE,
    served TEXT,                  -- the one model it serves, if it names one
    metrics TEXT NOT NULL DEFAULT 'unknown',
    first_seen INTEGER NOT NULL,
    last_seen INTEGER,
    reading TEXT,                 -- its counters as last read, JSON
    settled INTEGER NOT NULL DEFAULT 0  -- the last exchange that is in the lifetime totals
);

CREATE TABLE words (              -- short texts that come again and again
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    client TEXT NOT NULL,
    name TEXT NOT NULL,
    upstream INTEGER NOT NULL,
    model TEXT,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    requests INTEGER NOT NULL DEFAULT 0,
    turns INTEGER NOT NULL DEFAULT 0,
    breaks INTEGER NOT NULL DEFAULT 0,
    prompt INTEGER NOT NULL DEFAULT 0,  -- of those requests that say what was reused
    reused INTEGER NOT NULL DEFAULT 0,
    output INTEGER NOT NULL DEFAULT 0,
    context INTEGER NOT NULL DEFAULT 0, -- tokens of the conversation after its last turn
    UNIQUE (client, name)
);

CREATE TABLE exchanges (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given again: upstreams.settled refers to it
    at INTEGER NOT NULL,
    number INTEGER NOT NULL,      -- since the proxy started
    upstream INTEGER NOT NULL,
    session INTEGER,
    model INTEGER,                -- as asked for; a word, as are dialect to rules
    dialect INTEGER,
    outcome INTEGER NOT NULL,
    verdict INTEGER,
    reason INTEGER,
    shape INTEGER,
    rules INTEGER,
    turn INTEGER NOT NULL,
    side INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    under_way INTEGER NOT NULL,   -- it began before the upstream's counters were last read
    status INTEGER,
    prompt INTEGER,
    reused INTEGER,
    evaluated INTEGER,
    output INTEGER,
    prompt_ms INTEGER,
    output_ms INTEGER,
    first_ms INTEGER,
    total_ms INTEGER NOT NULL,
    added_us INTEGER,             -- microseconds from when it was read until it was sent
    lost INTEGER,                 -- tokens of a break
    lost_ms INTEGER,
    spared INTEGER,               -- tokens not evaluated thanks to the rules; estimated
    up INTEGER NOT NULL,          -- bytes of the bodies
    down INTEGER NOT NULL,
    place TEXT                    -- JSON pointer of a break
);

CREATE INDEX exchanges_at ON exchanges (at);

CREATE TABLE samples (            -- what the counters gained in the step milliseconds from at on
    step INTEGER NOT NULL,
    upstream INTEGER NOT NULL,
    at INTEGER NOT NULL,
    looks INTEGER NOT NULL,
    prompt REAL, reused REAL, evaluated REAL, generated REAL,
    prefill REAL, generation REAL, requests REAL,
    running REAL, waiting REAL, kv REAL,  -- summed over the looks
    PRIMARY KEY (step, upstream, at)
) WITHOUT ROWID;

CREATE TABLE targets (            -- what totals are kept for
    id INTEGER PRIMARY KEY,
    upstream INTEGER NOT NULL,
    model TEXT NOT NULL,          -- '' where the server names none
    first_seen INTEGER NOT NULL,
    UNIQUE (upstream, model)
);

CREATE TABLE lifetime (
    target INTEGER NOT NULL,
    figure TEXT NOT NULL,
    counters REAL NOT NULL DEFAULT 0,   -- by the server's counters
    responses REAL NOT NULL DEFAULT 0,  -- by responses, where no counter tells
    PRIMARY KEY (target, figure)
) WITHOUT ROWID;

CREATE TABLE lifetime_breaks (
    target INTEGER NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    lost_ms INTEGER NOT NULL,
    PRIMARY KEY (target, reason)
) WITHOUT ROWID;
