-- What a page with windows of up to 30 days asks for, without reading every exchange.

CREATE TABLE rollups (            -- sums over the exchanges that began in the step from at on
    step INTEGER NOT NULL,
    upstream INTEGER NOT NULL,
    at INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    breaks INTEGER NOT NULL,
    prompt INTEGER NOT NULL,      -- of all that say it
    reused INTEGER NOT NULL,
    evaluated INTEGER NOT NULL,
    output INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    spared INTEGER NOT NULL,
    timed_prompt INTEGER NOT NULL,  -- evaluated tokens whose time is known, and that time
    prompt_ms INTEGER NOT NULL,
    timed_output INTEGER NOT NULL,
    output_ms INTEGER NOT NULL,
    first_ms INTEGER NOT NULL,    -- the longest wait for a first byte
    added_us INTEGER NOT NULL,
    sent INTEGER NOT NULL,        -- requests that added_us is the sum of
    PRIMARY KEY (step, upstream, at)
) WITHOUT ROWID;

CREATE TABLE rollup_firsts (      -- how many waits for a first byte fell into which class
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

CREATE INDEX exchanges_session ON exchanges (session, id);
CREATE INDEX exchanges_breaks ON exchanges (id) WHERE reason IS NOT NULL AND side = 0;
CREATE INDEX exchanges_failed ON exchanges (id) WHERE failed = 1;
CREATE INDEX exchanges_slow ON exchanges (id) WHERE first_ms >= 10000;
CREATE INDEX sessions_last ON sessions (last);

-- What was recorded before.
WITH steps (step) AS (VALUES (60000), (3600000))
INSERT INTO rollups
SELECT
    step, upstream, at / step * step,
    count(*), sum(turn > 0), sum(failed), sum(reason IS NOT NULL AND side = 0),
    total(prompt), total(reused), total(evaluated), total(output), total(lost), total(spared),
    total(CASE WHEN prompt_ms > 0 THEN evaluated END),
    total(CASE WHEN evaluated IS NOT NULL THEN prompt_ms END),
    total(CASE WHEN output_ms > 0 THEN output END),
    total(CASE WHEN output IS NOT NULL THEN output_ms END),
    ifnull(max(first_ms), 0), total(added_us), count(added_us)
FROM exchanges CROSS JOIN steps
GROUP BY step, upstream, at / step * step;

WITH steps (step) AS (VALUES (60000), (3600000))
INSERT INTO rollup_firsts
SELECT step, upstream, at / step * step, first_class(first_ms), count(*)
FROM exchanges CROSS JOIN steps
WHERE turn > 0 AND first_ms IS NOT NULL
GROUP BY step, upstream, at / step * step, first_class(first_ms);

WITH steps (step) AS (VALUES (60000), (3600000))
INSERT INTO rollup_breaks
SELECT
    step, upstream, at / step * step, reason, ifnull(shape, 0),
    count(*), total(lost), total(lost_ms), max(id)
FROM exchanges CROSS JOIN steps
WHERE reason IS NOT NULL AND side = 0
GROUP BY step, upstream, at / step * step, reason, ifnull(shape, 0);
