-- Conversations with their turns: what a prompt was made of, what each conversation lost and saved.

ALTER TABLE exchanges ADD COLUMN tools INTEGER;     -- tokens of the prompt's parts; estimated
ALTER TABLE exchanges ADD COLUMN system INTEGER;
ALTER TABLE exchanges ADD COLUMN history INTEGER;
ALTER TABLE exchanges ADD COLUMN thinking INTEGER;
ALTER TABLE exchanges ADD COLUMN newest INTEGER;
ALTER TABLE exchanges ADD COLUMN rendered INTEGER;  -- the order of these parts, a word
ALTER TABLE exchanges ADD COLUMN equal INTEGER;     -- tokens shared with the turn before, of a break

ALTER TABLE sessions ADD COLUMN root INTEGER;       -- the session that it works for
ALTER TABLE sessions ADD COLUMN side INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN evaluated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN lost_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN spared INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN spared_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN unpriced INTEGER NOT NULL DEFAULT 0;  -- tokens of spared
CREATE INDEX sessions_root ON sessions (root) WHERE root IS NOT NULL;

ALTER TABLE rollups ADD COLUMN context INTEGER NOT NULL DEFAULT 0;    -- the longest prompt of a turn

CREATE TABLE rollup_groups (      -- sums by client and model
    step INTEGER NOT NULL,
    upstream INTEGER NOT NULL,
    at INTEGER NOT NULL,
    client TEXT NOT NULL,         -- '' where nobody knows
    model INTEGER NOT NULL,       -- as asked for; a word, 0: none
    requests INTEGER NOT NULL,
    prompt INTEGER NOT NULL,
    reused INTEGER NOT NULL,
    evaluated INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    lost_ms INTEGER NOT NULL,
    PRIMARY KEY (step, at, upstream, client, model)
) WITHOUT ROWID;

-- What was recorded before.
UPDATE sessions SET
    side = sums.side, evaluated = sums.evaluated, lost = sums.lost, lost_ms = sums.lost_ms,
    spared = sums.spared, spared_ms = sums.spared_ms, unpriced = sums.unpriced
FROM (
    SELECT session,
        sum(side) AS side,
        CAST(total(CASE WHEN prompt IS NOT NULL AND reused IS NOT NULL THEN evaluated END)
            AS INTEGER) AS evaluated,
        CAST(total(CASE WHEN reason IS NOT NULL AND side = 0 THEN lost END) AS INTEGER) AS lost,
        CAST(total(CASE WHEN reason IS NOT NULL AND side = 0 THEN lost_ms END) AS INTEGER)
            AS lost_ms,
        CAST(total(spared) AS INTEGER) AS spared,
        CAST(total(spared_ms) AS INTEGER) AS spared_ms,
        CAST(total(CASE WHEN spared_ms IS NULL THEN spared END) AS INTEGER) AS unpriced
    FROM exchanges WHERE session IS NOT NULL GROUP BY session
) AS sums
WHERE sums.session = sessions.id;

UPDATE rollups SET context = (
    SELECT ifnull(max(prompt), 0) FROM exchanges AS e
    WHERE e.upstream = rollups.upstream AND e.at >= rollups.at AND e.at < rollups.at + rollups.step
        AND turn > 0 AND side = 0
) WHERE at >= (SELECT min(at) FROM exchanges) / step * step;

WITH steps (step) AS (VALUES (60000), (3600000))
INSERT INTO rollup_groups
SELECT
    step, e.upstream, at / step * step, ifnull(s.client, ''), ifnull(e.model, 0),
    count(*), total(e.prompt), total(e.reused), total(e.evaluated),
    total(CASE WHEN reason IS NOT NULL AND e.side = 0 THEN e.lost END),
    total(CASE WHEN reason IS NOT NULL AND e.side = 0 THEN e.lost_ms END)
FROM steps CROSS JOIN exchanges AS e LEFT JOIN sessions AS s ON s.id = e.session
-- Sums by the minute are kept for three days.
WHERE step = 3600000 OR at >= (SELECT max(at) FROM exchanges) - 3 * 86400000
GROUP BY 1, 2, 3, 4, 5;
