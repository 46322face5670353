-- Title: Controlled metrics
-- Grain: one metric of one run (run_id, metric)
-- Evidence class: one a row; never pooled
-- Source: episode; paper sections 4.2 and 5, table 4. Intervals and decisions are made from these counts elsewhere. Undefined in a run that is not whole (run_rows)
-- Column evidence_class: What the rows may be used for.
-- Column origin: Who produced them.
-- Column contract: The frozen contract they fall under.
-- Column run_id: The run.
-- Column metric: The metric's name in the contract.
-- Column k: Numerator; of a contrast the difference of the numerators. NULL where the metric is undefined.
-- Column n: Independent episodes; 0 where the metric is undefined.
-- Column observed: k / n; NULL where the metric is undefined, never 0.
WITH by_arm AS (
    SELECT
        evidence_class, origin, contract, run_id, seed, episode_id,
        bool_and(expected_trigger) AS positive,
        any_value(family) = 'distractor_only' AS distractor_only,
        bool_and(correct) FILTER (arm = 'C0') AS right_c0,
        bool_and(correct) FILTER (arm = 'C1') AS right_c1,
        bool_and(correct) FILTER (arm = 'C3') AS right_c3,
        bool_and(correct) FILTER (arm = 'C4') AS right_c4,
        bool_and(non_action) FILTER (arm = 'C2') AS non_action_c2,
        bool_and(non_action) FILTER (arm = 'C3') AS non_action_c3,
        bool_or(fired) FILTER (arm = 'C3') AS fired_c3,
        bool_and(correct_same_process) FILTER (arm = 'C3') AS right_same_process,
        bool_and(correct_restart) FILTER (arm = 'C3') AS right_restart,
        bool_or(null_trial) FILTER (arm = 'C3') AS null_c3,
        bool_and(audit_passed) FILTER (arm = 'C3') AS audited_c3,
        bool_and(coalesce(memory_write_ok, TRUE)) AS written,
        bool_or(memory_write_ok IS NOT NULL) AS written_known,
        bool_and(integrity_ok) AS unchanged,
        bool_and(whole) AS whole
    FROM episode
    GROUP BY ALL
),
counted AS (
    SELECT
        evidence_class, origin, contract, run_id,
        count(*) AS n_all,
        count(*) FILTER (positive) AS n_positive,
        count(*) FILTER (NOT positive) AS n_negative,
        count(*) FILTER (distractor_only) AS n_distractor_only,
        count(*) FILTER (null_c3) AS n_null,
        count(*) FILTER (written_known) AS n_written,
        count(right_c0) > 0 AS has_c0,
        count(right_c1) > 0 AS has_c1,
        count(non_action_c2) > 0 AS has_c2,
        count(right_c3) > 0 AS has_c3,
        count(right_c4) > 0 AS has_c4,
        count(right_same_process) > 0 AND count(right_restart) > 0 AS has_boundaries,
        count(*) FILTER (right_c0) AS k_right_c0,
        count(*) FILTER (right_c1) AS k_right_c1,
        count(*) FILTER (right_c3) AS k_right_c3,
        count(*) FILTER (positive AND right_c3) AS k_acted_c3,
        count(*) FILTER (positive AND right_c4) AS k_acted_c4,
        count(*) FILTER (NOT positive AND non_action_c2) AS k_silent_c2,
        count(*) FILTER (NOT positive AND non_action_c3) AS k_silent_c3,
        count(*) FILTER (NOT positive AND fired_c3) AS k_fired_c3,
        count(*) FILTER (positive AND right_same_process) AS k_same_process,
        count(*) FILTER (positive AND right_restart) AS k_restart,
        count(*) FILTER (distractor_only AND right_c0) AS k_unrelated_c0,
        count(*) FILTER (distractor_only AND right_c3) AS k_unrelated_c3,
        count(*) FILTER (null_c3 AND audited_c3) AS k_audited,
        count(*) FILTER (written_known AND written) AS k_written,
        count(*) FILTER (unchanged) AS k_unchanged,
        bool_and(whole) AS whole
    FROM by_arm
    GROUP BY ALL
),
listed AS (
    SELECT evidence_class, origin, contract, run_id, whole, unnest([
        {metric: 'triggered_action_accuracy', defined: has_c3, k: k_acted_c3, n: n_positive},
        {metric: 'correct_non_action', defined: has_c3 AND has_c0, k: k_silent_c3, n: n_negative},
        {metric: 'false_trigger_rate', defined: has_c3, k: k_fired_c3, n: n_negative},
        {metric: 'prospective_utility_margin', defined: has_c3 AND has_c0 AND has_c1,
            k: k_right_c3 - greatest(k_right_c0, k_right_c1), n: n_all},
        {metric: 'selectivity_gain', defined: has_c3 AND has_c0 AND has_c2, k: k_silent_c3 - k_silent_c2, n: n_negative},
        {metric: 'causal_memory_dependence', defined: has_c3 AND has_c0 AND has_c4,
            k: k_acted_c3 - k_acted_c4, n: n_positive},
        {metric: 'null_path_equivalence', defined: has_c3, k: k_audited, n: n_null},
        {metric: 'restart_persistence_loss', defined: has_boundaries, k: k_same_process - k_restart, n: n_positive},
        {metric: 'unrelated_control_regression', defined: has_c3 AND has_c0,
            k: k_unrelated_c0 - k_unrelated_c3, n: n_distractor_only},
        {metric: 'memory_write_success', defined: TRUE, k: k_written, n: n_written},
        {metric: 'frozen_backbone_integrity', defined: TRUE, k: k_unchanged, n: n_all}
    ], recursive := TRUE)
    FROM counted
)
SELECT
    evidence_class, origin, contract, run_id, metric,
    CASE WHEN whole AND defined AND n > 0 THEN k END AS k,
    CASE WHEN whole AND defined THEN n ELSE 0 END AS n,
    CASE WHEN whole AND defined AND n > 0 THEN k / n END AS observed
FROM listed
