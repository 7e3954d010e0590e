-- What was spared is priced once, when it happens; speeds are those of answers that tell one.

ALTER TABLE exchanges ADD COLUMN spared_ms INTEGER;  -- NULL: at a speed that nobody knew
ALTER TABLE rollups ADD COLUMN spared_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rollups ADD COLUMN unpriced INTEGER NOT NULL DEFAULT 0;  -- tokens of spared

-- What was spared before is priced as the lifetime totals had it, so that both add up to the same.
CREATE TEMP TABLE prices AS
SELECT upstream, sum(CASE figure WHEN 'spared_seconds' THEN responses END) * 1000.0
    / sum(CASE figure WHEN 'spared' THEN responses WHEN 'spared_waiting' THEN -responses END) AS ms
FROM lifetime JOIN targets ON targets.id = target
GROUP BY upstream;
UPDATE exchanges SET spared_ms = round(spared * (
    SELECT ms FROM prices WHERE prices.upstream = exchanges.upstream AND ms > 0
)) WHERE spared != 0;
UPDATE exchanges SET spared_ms = 0 WHERE spared = 0;
UPDATE rollups SET
    spared_ms = ifnull(round(spared * (
        SELECT ms FROM prices WHERE prices.upstream = rollups.upstream AND ms > 0
    )), 0),
    unpriced = CASE WHEN EXISTS (
        SELECT 1 FROM prices WHERE prices.upstream = rollups.upstream AND ms > 0
    ) THEN 0 ELSE spared END;
DROP TABLE prices;
DELETE FROM lifetime WHERE figure IN ('speed_tokens', 'speed_seconds');
UPDATE lifetime SET figure = 'spared_unpriced' WHERE figure = 'spared_waiting';

-- The speeds of steps of which every exchange is still there.
UPDATE rollups SET (timed_prompt, prompt_ms, timed_output, output_ms) = (
    SELECT
        total(CASE WHEN evaluated >= 64 AND e.prompt_ms > 0 THEN evaluated END),
        total(CASE WHEN evaluated >= 64 AND e.prompt_ms > 0 THEN e.prompt_ms END),
        total(CASE WHEN output >= 8 AND e.output_ms >= 10 THEN output END),
        total(CASE WHEN output >= 8 AND e.output_ms >= 10 THEN e.output_ms END)
    FROM exchanges AS e
    WHERE e.upstream = rollups.upstream AND e.at >= rollups.at AND e.at < rollups.at + rollups.step
) WHERE at >= (SELECT min(at) FROM exchanges);
