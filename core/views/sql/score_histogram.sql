-- Title: Scores, binned
-- Grain: one bin of width 0.05 in one run, arm, family and label (run_id, arm, family, expected_trigger, bin)
-- Evidence class: one a row; never pooled
-- Source: trace; executions with a score. Copies of an episode across boundaries are counted once (same process first). Of a run that is not whole (run_rows) n is 0 and fired NULL
-- Column evidence_class: What the rows may be used for.
-- Column origin: Who produced them.
-- Column contract: The frozen contract they fall under.
-- Column run_id: The run.
-- Column arm: The causal condition.
-- Column family: The controlled episode's family.
-- Column expected_trigger: Whether something should fire.
-- Column threshold: The locked threshold.
-- Column bin: Lower edge of the bin; the last one, 0.95, holds 1 too.
-- Column n: Episodes in the bin.
-- Column fired: Those at or above the threshold.
WITH one AS (
    SELECT
        evidence_class, origin, contract, run_id, arm, family, seed, episode_id, expected_trigger, threshold,
        first(score ORDER BY boundary DESC) AS score,
        first(fired ORDER BY boundary DESC) AS fired
    FROM trace
    WHERE score IS NOT NULL
    GROUP BY ALL
)
SELECT
    evidence_class, origin, contract, run_id, arm, family, expected_trigger, threshold,
    least(greatest(floor(score * 20), 0), 19) / 20 AS bin,
    count(*) FILTER (whole) AS n,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (fired) END AS fired
FROM one
JOIN run_rows USING (run_id)
GROUP BY ALL
