-- Title: Scores, summarised
-- Grain: one seed, boundary and family of one arm of one run, by label (run_id, arm, family, boundary, seed, expected_trigger)
-- Evidence class: one a row; never pooled
-- Source: trace. Of a run that is not whole (run_rows) n is 0 and the rest NULL
-- Column evidence_class: What the rows may be used for.
-- Column origin: Who produced them.
-- Column contract: The frozen contract they fall under.
-- Column run_id: The run.
-- Column arm: The causal condition.
-- Column family: The controlled episode's family.
-- Column boundary: What lay between writing and event.
-- Column seed: The generator's seed.
-- Column expected_trigger: Whether something should fire.
-- Column n: Executions, one an episode here.
-- Column scored: Those with a score.
-- Column fired: Those on which something fired.
-- Column correct: Those that were right.
-- Column missed: Positives on which nothing fired.
-- Column false_fired: Negatives on which something fired.
-- Column score_min: Least score; NULL where none has one.
-- Column score_median: Median score; NULL where none has one.
-- Column score_max: Greatest score; NULL where none has one.
SELECT
    evidence_class, origin, contract, run_id, arm, family, boundary, seed, expected_trigger,
    count(*) FILTER (whole) AS n,
    CASE WHEN bool_and(whole) THEN count(score) END AS scored,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (fired) END AS fired,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (correct) END AS correct,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (expected_trigger AND NOT fired) END AS missed,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (NOT expected_trigger AND fired) END AS false_fired,
    min(score) FILTER (whole) AS score_min,
    median(score) FILTER (whole) AS score_median,
    max(score) FILTER (whole) AS score_max
FROM trace
JOIN run_rows USING (run_id)
GROUP BY ALL
