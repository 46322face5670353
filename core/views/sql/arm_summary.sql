-- Title: Arms of a run
-- Grain: one arm of one run (run_id, arm)
-- Evidence class: one a row; never pooled
-- Source: episode; n counts episodes, right in every boundary. Of a run that is not whole (run_rows) n is 0 and the rest NULL
-- Column evidence_class: What the rows may be used for.
-- Column origin: Who produced them.
-- Column contract: The frozen contract they fall under.
-- Column run_id: The run.
-- Column arm: The causal condition.
-- Column executions: How many executions are behind the row.
-- Column n: Independent episodes.
-- Column n_positive: Episodes on which something should fire.
-- Column n_negative: Episodes on which nothing should.
-- Column right: Episodes right in every boundary.
-- Column right_positive: Positives acted on rightly in every boundary.
-- Column right_negative: Negatives left alone in every boundary.
-- Column fired_negative: Negatives on which something fired in a boundary.
-- Column acted_negative: Negatives on which it acted in a boundary.
-- Column non_action_negative: Negatives without action whose output equals the paired baseline's.
-- Column utility: Share of episodes right.
-- Column triggered_action_accuracy: Share of positives acted on rightly; NULL where there is none.
-- Column correct_non_action: Share of negatives without action and with the paired baseline's output; NULL where there is none.
-- Column false_trigger_rate: Share of negatives on which something fired; NULL where there is none.
-- Column distractor_fires: Distractor decisions that fired, counted apart.
-- Column copies_disagree: Episodes whose boundaries answered differently: an error to show.
SELECT
    evidence_class, origin, contract, run_id, arm,
    sum(executions)::BIGINT AS executions,
    count(*) FILTER (whole) AS n,
    count(*) FILTER (whole AND expected_trigger) AS n_positive,
    count(*) FILTER (whole AND NOT expected_trigger) AS n_negative,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (correct) END AS "right",
    CASE WHEN bool_and(whole) THEN count(*) FILTER (expected_trigger AND correct) END AS right_positive,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (NOT expected_trigger AND correct) END AS right_negative,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (NOT expected_trigger AND fired) END AS fired_negative,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (NOT expected_trigger AND acted) END AS acted_negative,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (NOT expected_trigger AND non_action) END AS non_action_negative,
    "right" / nullif(n, 0) AS utility,
    right_positive / nullif(n_positive, 0) AS triggered_action_accuracy,
    non_action_negative / nullif(n_negative, 0) AS correct_non_action,
    fired_negative / nullif(n_negative, 0) AS false_trigger_rate,
    CASE WHEN bool_and(whole) THEN sum(distractor_fires)::BIGINT END AS distractor_fires,
    CASE WHEN bool_and(whole) THEN count(*) FILTER (NOT copies_agree) END AS copies_disagree
FROM episode
GROUP BY ALL
