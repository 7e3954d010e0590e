-- Lifetime totals are sums of what passed through here, like those by the hour, in a step without
-- end. What a server's own counters tell is in none: they count the server's life, and others'
-- requests.

INSERT INTO rollups (
    step, upstream, at, requests, turns, failed, breaks, prompt, reused, evaluated, output, lost,
    spared, timed_prompt, prompt_ms, timed_output, output_ms, first_ms, added_us, sent, spared_ms,
    unpriced, context
)
SELECT
    1 << 62, upstream, 0, sum(requests), sum(turns), sum(failed), sum(breaks), sum(prompt),
    sum(reused), sum(evaluated), sum(output), sum(lost), sum(spared), sum(timed_prompt),
    sum(prompt_ms), sum(timed_output), sum(output_ms), max(first_ms), sum(added_us), sum(sent),
    sum(spared_ms), sum(unpriced), max(context)
FROM rollups WHERE step = 3600000 GROUP BY upstream;

DROP TABLE samples;
DROP TABLE lifetime;
DROP TABLE lifetime_breaks;
DROP TABLE targets;
ALTER TABLE exchanges DROP COLUMN under_way;
ALTER TABLE upstreams DROP COLUMN metrics;
ALTER TABLE upstreams DROP COLUMN last_seen;
ALTER TABLE upstreams DROP COLUMN reading;
ALTER TABLE upstreams DROP COLUMN settled;
